package prepare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"penstock/stages/internal/chat"
)

// Why a row is rejected. These are keys of Report.Rejects and the reason in the reject file.
const (
	TooLong     = "row too long"
	NotUTF8     = "not UTF-8"
	NotJSON     = "broken JSON"
	NoMessages  = "no messages"
	BadMessage  = "broken message"
	UnknownRole = "unknown role"
	ToolCalls   = "tool calls"
	NoAssistant = "no assistant"
	Unrendered  = "refused by the chat template"
	NoAnchor    = "no valid anchor"
)

// roles are those that chat templates know.
var roles = map[string]bool{"system": true, "developer": true, "user": true, chat.Assistant: true, "tool": true}

// refusal is why one row is rejected.
type refusal struct{ reason, detail string }

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// jsonRow is one row; fields that change nothing are left out.
type jsonRow struct {
	Messages json.RawMessage `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
}

type jsonMessage struct {
	Role      *string         `json:"role"`
	Content   json.RawMessage `json:"content"`
	Reasoning *string         `json:"reasoning_content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// parseRow reads the conversation of one row.
func parseRow(row rawRow) ([]chat.Message, *refusal) {
	if row.long {
		return nil, refuse(TooLong, "more than %d bytes", maxRow)
	}
	if !utf8.Valid(row.data) {
		return nil, refuse(NotUTF8, "the row holds bytes that are no UTF-8 text")
	}
	var r jsonRow
	if err := json.Unmarshal(row.data, &r); err != nil {
		return nil, refuse(NotJSON, "%v", err)
	}
	if filled(r.Tools) {
		return nil, refuse(ToolCalls, "the row offers tools, which are not supported")
	}
	if !filled(r.Messages) {
		return nil, refuse(NoMessages, `there is no list "messages", or it is empty`)
	}
	var list []jsonMessage
	if err := json.Unmarshal(r.Messages, &list); err != nil {
		return nil, refuse(BadMessage, "messages: %v", err)
	}
	messages := make([]chat.Message, len(list))
	spoken := false
	for i, m := range list {
		var no *refusal
		if messages[i], no = m.message(i + 1); no != nil {
			return nil, no
		}
		spoken = spoken || messages[i].Role == chat.Assistant
	}
	if !spoken {
		return nil, refuse(NoAssistant, "none of %d messages is the assistant's", len(list))
	}
	return messages, nil
}

// message checks message number n of a row.
func (m jsonMessage) message(n int) (out chat.Message, no *refusal) {
	if m.Role == nil {
		return out, refuse(BadMessage, "message %d has no role", n)
	}
	if !roles[*m.Role] {
		return out, refuse(UnknownRole, "message %d has role %q", n, *m.Role)
	}
	if filled(m.ToolCalls) {
		return out, refuse(ToolCalls, "message %d calls tools, which is not supported", n)
	}
	content, err := contentText(m.Content)
	if err != nil {
		return out, refuse(BadMessage, "message %d: %v", n, err)
	}
	out = chat.Message{Role: *m.Role, Content: content}
	if m.Reasoning != nil {
		out.Reasoning = *m.Reasoning
	}
	return out, nil
}

// contentText reads a content: text, or a list of parts that are text.
func contentText(data json.RawMessage) (string, error) {
	var text string
	if len(data) == 0 || string(data) == "null" {
		return "", fmt.Errorf("there is no content")
	}
	if json.Unmarshal(data, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if json.Unmarshal(data, &parts) != nil {
		return "", fmt.Errorf("the content is neither text nor a list of parts")
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", fmt.Errorf("the content has a part of type %q, want text", p.Type)
		}
		b.WriteString(*p.Text)
	}
	return b.String(), nil
}

// filled tells whether a JSON value is there and not null or empty.
func filled(data json.RawMessage) bool {
	switch string(bytes.Join(bytes.Fields(data), nil)) {
	case "", "null", "[]", "{}", `""`:
		return false
	}
	return true
}
