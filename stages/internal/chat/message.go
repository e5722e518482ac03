package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Assistant is the role whose words are trained on.
const Assistant = "assistant"

// Message is one turn of a conversation.
type Message struct {
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	NoContent  bool            `json:"-"`                           // the content is null, as beside tool calls
	Reasoning  string          `json:"reasoning_content,omitempty"` // for templates that take it apart from the content
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`        // list, as templates expect it
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Name       string          `json:"name,omitempty"`
}

// Conversation is what a template renders.
type Conversation struct {
	Messages []Message
	Tools    json.RawMessage // list of what the model may call, in the order of its keys; nil for none
}

// Talk is a conversation without tools.
func Talk(messages ...Message) Conversation { return Conversation{Messages: messages} }

// value is the message as templates see it, with its calls read.
func (m Message) value(calls jinja.Value) jinja.Value {
	v := jinja.NewDict()
	d := v.AsDict()
	d.Set("role", jinja.NewString(m.Role))
	if m.NoContent {
		d.Set("content", jinja.None())
	} else {
		d.Set("content", jinja.NewString(m.Content))
	}
	for _, f := range []struct{ key, text string }{{"reasoning_content", m.Reasoning}, {"name", m.Name}, {"tool_call_id", m.ToolCallID}} {
		if f.text != "" {
			d.Set(f.key, jinja.NewString(f.text))
		}
	}
	if len(m.ToolCalls) > 0 {
		d.Set("tool_calls", calls)
	}
	return v
}

// parsed is a conversation whose JSON has been read, to be rendered several times.
type parsed struct {
	Conversation
	tools jinja.Value
	calls []jinja.Value // of each message

	spelled bool // see spellsSeparators; of the whole, also where contents are replaced
}

// parse reads tools and tool calls, and refuses what is no JSON list.
func (c Conversation) parse() (parsed, error) {
	list := func(what string, data json.RawMessage) (jinja.Value, error) {
		if len(data) == 0 {
			return jinja.None(), nil
		}
		v, err := fromJSON(data)
		if err != nil || !v.IsList() {
			return v, fmt.Errorf("%s are no JSON list: %w", what, err)
		}
		return v, nil
	}
	p := parsed{Conversation: c, calls: make([]jinja.Value, len(c.Messages)), spelled: c.spellsSeparators()}
	var err error
	p.tools, err = list("tools", c.Tools)
	for i, m := range c.Messages {
		var bad error
		p.calls[i], bad = list(fmt.Sprintf("the tool calls of message %d", i+1), m.ToolCalls)
		err = errors.Join(err, bad)
	}
	return p, err
}

// fromJSON reads a JSON value and keeps the order of its keys, which templates print.
func fromJSON(data []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := readJSON(d)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("text follows the JSON value")
		}
	}
	return v, err
}

func readJSON(d *json.Decoder) (jinja.Value, error) {
	token, err := d.Token()
	if err != nil {
		return jinja.None(), err
	}
	switch t := token.(type) {
	case string:
		return jinja.NewString(t), nil
	case bool:
		return jinja.NewBool(t), nil
	case json.Number:
		if n, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return jinja.NewInt(n), nil
		}
		if !strings.ContainsAny(t.String(), ".eE") { // of any size in Python
			return jinja.NewString(floatOpen + t.String() + floatClose), nil
		}
		f, err := t.Float64()
		return floatValue(f), err
	case json.Delim:
		if t == '[' {
			return readList(d)
		}
		return readDict(d)
	}
	return jinja.None(), nil
}

func readList(d *json.Decoder) (jinja.Value, error) {
	items := []jinja.Value{}
	for d.More() {
		v, err := readJSON(d)
		if err != nil {
			return jinja.None(), err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return jinja.NewList(items), err
}

func readDict(d *json.Decoder) (jinja.Value, error) {
	v := jinja.NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return jinja.None(), err
		}
		item, err := readJSON(d)
		if err != nil {
			return jinja.None(), err
		}
		v.AsDict().Set(key.(string), item)
	}
	_, err := d.Token()
	return v, err
}
