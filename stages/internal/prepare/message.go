package prepare

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"penstock/stages/internal/chat"
)

// roles maps the roles of messages and of ShareGPT to those that chat templates know.
var roles = map[string]string{
	"system": "system", "developer": "developer", "user": "user", chat.Assistant: chat.Assistant, "tool": "tool",
	"human": "user", "gpt": chat.Assistant, "chatgpt": chat.Assistant, "model": chat.Assistant,
	"observation": "tool", "function_response": "tool",
}

// jsonMessage is one message, with the keys of ShareGPT beside the usual ones.
type jsonMessage struct {
	Role      *string         `json:"role"`
	From      *string         `json:"from"`
	Content   any             `json:"content"`
	Value     any             `json:"value"`
	Reasoning any             `json:"reasoning_content"`
	Thinking  any             `json:"reasoning"`
	Thoughts  any             `json:"thinking"`
	ToolCalls json.RawMessage `json:"tool_calls"`
	CallID    any             `json:"tool_call_id"`
	Name      any             `json:"name"`
}

// messages checks a row's messages.
func messages(list []jsonMessage) ([]chat.Message, *refusal) {
	out, spoken := make([]chat.Message, len(list)), false
	for i, m := range list {
		var no *refusal
		if out[i], no = m.message(i + 1); no != nil {
			return nil, no
		}
		spoken = spoken || out[i].Role == chat.Assistant
	}
	if len(list) > 0 && !spoken {
		return nil, refuse(NoAssistant, "none of %d messages is the assistant's", len(list))
	}
	return out, nil
}

// message checks message number n of a row.
func (m jsonMessage) message(n int) (out chat.Message, no *refusal) {
	role, content := m.Role, m.Content
	if role == nil {
		role, content = m.From, m.Value
	}
	if role == nil {
		return out, refuse(BadMessage, "message %d has no role", n)
	}
	var ok bool
	if out.Role, ok = roles[*role]; !ok {
		return out, refuse(UnknownRole, "message %d has role %q", n, *role)
	}
	var err error
	if out.ToolCalls, err = toolCalls(m.ToolCalls); err != nil {
		return out, refuse(ToolCalls, "message %d: tool_calls: %v", n, err)
	}
	if content == nil && len(out.ToolCalls) > 0 {
		out.NoContent = true
	} else if out.Content, err = contentText(content); err != nil {
		return out, refuse(BadMessage, "message %d: %v", n, err)
	}
	for _, f := range []struct {
		from any
		to   *string
	}{{m.Thoughts, &out.Reasoning}, {m.Thinking, &out.Reasoning}, {m.Reasoning, &out.Reasoning}, {m.CallID, &out.ToolCallID}, {m.Name, &out.Name}} {
		if text, ok := f.from.(string); ok && text != "" {
			*f.to = text
		}
	}
	return out, nil
}

// contentText reads a content: text, or a list of parts that are text.
func contentText(content any) (string, error) {
	switch c := content.(type) {
	case nil:
		return "", errors.New("there is no content")
	case string:
		return c, nil
	case []any:
		var b strings.Builder
		for _, part := range c {
			p, _ := part.(map[string]any)
			text, ok := p["text"].(string)
			if p["type"] != "text" || !ok {
				return "", fmt.Errorf("the content has a part of type %q, want text", fmt.Sprint(p["type"]))
			}
			b.WriteString(text)
		}
		return b.String(), nil
	}
	return "", errors.New("the content is neither text nor a list of parts")
}

// toolList reads a row's tools: a list, or a text that holds one.
func toolList(data json.RawMessage) (json.RawMessage, *refusal) {
	if !filled(data) {
		return nil, nil
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = json.RawMessage(text)
		if !filled(data) {
			return nil, nil
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, refuse(ToolCalls, "tools: want a list, or a text that holds one: %v", err)
	}
	return data, nil
}

// toolCalls reads a message's calls and writes them as chat templates expect them: functions whose arguments are an object
// even where they were kept as text, as servers do before they render.
func toolCalls(data json.RawMessage) (json.RawMessage, error) {
	if !filled(data) {
		return nil, nil
	}
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	var list []struct {
		ID       string    `json:"id,omitempty"`
		Type     string    `json:"type"`
		Function *function `json:"function"`
		function
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		data = json.RawMessage(text)
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	calls := make([]any, len(list))
	for i, c := range list {
		f := c.function
		if c.Function != nil {
			f = *c.Function
		}
		if f.Name == "" {
			return nil, fmt.Errorf("call %d names no function", i+1)
		}
		var inner string
		if json.Unmarshal(f.Arguments, &inner) == nil && strings.HasPrefix(strings.TrimSpace(inner), "{") && json.Valid([]byte(inner)) {
			f.Arguments = json.RawMessage(inner)
		}
		if len(f.Arguments) == 0 {
			f.Arguments = json.RawMessage("{}")
		}
		calls[i] = struct {
			ID       string   `json:"id,omitempty"`
			Type     string   `json:"type"`
			Function function `json:"function"`
		}{c.ID, "function", f}
	}
	return json.Marshal(calls)
}
