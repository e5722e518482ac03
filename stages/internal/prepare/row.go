package prepare

import (
	"bytes"
	"encoding/json"
	"errors"
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
	ToolCalls   = "broken tools"
	NoAssistant = "no assistant"
	BadTokens   = "broken tokens"
	Unrendered  = "refused by the chat template"
	NoAnchor    = "no valid anchor"
)

// refusal is why one row is rejected.
type refusal struct{ reason, detail string }

func (r *refusal) Error() string { return r.reason + ": " + r.detail }

func refuse(reason, format string, args ...any) *refusal {
	return &refusal{reason, fmt.Sprintf(format, args...)}
}

// sample is what a row holds: a conversation, or tokens with their loss mask.
type sample struct {
	talk chat.Conversation
	ids  []int32
	mask []uint8
}

// jsonRow is one row in any of the forms that are read; fields that change nothing are left out.
type jsonRow struct {
	Messages      []jsonMessage   `json:"messages"`
	Conversations []jsonMessage   `json:"conversations"` // ShareGPT
	Tools         json.RawMessage `json:"tools"`

	Prompt      json.RawMessage `json:"prompt"` // one turn
	Instruction json.RawMessage `json:"instruction"`
	Input       json.RawMessage `json:"input"`
	Response    json.RawMessage `json:"response"`
	Completion  json.RawMessage `json:"completion"`
	Output      json.RawMessage `json:"output"`
	System      json.RawMessage `json:"system"` // of any form that does not begin with one

	InputIDs json.RawMessage `json:"input_ids"` // tokenised already
	LossMask json.RawMessage `json:"loss_mask"`
	Labels   json.RawMessage `json:"labels"`
}

// parseRow reads what one row holds.
func parseRow(row rawRow) (sample, *refusal) {
	if row.long {
		return sample{}, refuse(TooLong, "more than %d bytes", maxRow)
	}
	if row.bad != nil {
		return sample{}, refuse(NotJSON, "%v", row.bad)
	}
	if !utf8.Valid(row.data) {
		return sample{}, refuse(NotUTF8, "the row holds bytes that are no UTF-8 text")
	}
	var r jsonRow
	if err := json.Unmarshal(row.data, &r); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) && (strings.HasPrefix(kind.Field, "messages") || strings.HasPrefix(kind.Field, "conversations")) {
			return sample{}, refuse(BadMessage, "%s: cannot be a JSON %s", kind.Field, kind.Value)
		}
		return sample{}, refuse(NotJSON, "%v", err)
	}
	if filled(r.InputIDs) && len(r.Messages) == 0 && len(r.Conversations) == 0 {
		return r.tokens()
	}
	list := r.Messages
	if len(list) == 0 {
		list = r.Conversations
	}
	var s sample
	var no *refusal
	if s.talk.Messages, no = messages(list); no == nil && len(list) == 0 {
		s.talk.Messages, no = r.turn()
	}
	if system := firstText(r.System); system != "" && no == nil && s.talk.Messages[0].Role != "system" {
		s.talk.Messages = append([]chat.Message{{Role: "system", Content: system}}, s.talk.Messages...)
	}
	if no == nil {
		s.talk.Tools, no = toolList(r.Tools)
	}
	return s, no
}

// turn reads a prompt with its response.
func (r jsonRow) turn() ([]chat.Message, *refusal) {
	prompt, response := firstText(r.Prompt, r.Instruction), firstText(r.Response, r.Completion, r.Output)
	if prompt == "" || response == "" {
		return nil, refuse(NoMessages, `there is no list "messages" or "conversations", no prompt with its response and no "input_ids", or it is empty`)
	}
	if more := firstText(r.Input); more != "" {
		prompt += "\n\n" + more
	}
	return []chat.Message{{Role: "user", Content: prompt}, {Role: chat.Assistant, Content: response}}, nil
}

// firstText is the first of some JSON values that is text and not empty.
func firstText(values ...json.RawMessage) string {
	for _, v := range values {
		var text string
		if json.Unmarshal(v, &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// tokens reads a row that is tokenised already: input_ids with a loss_mask of zeros and ones, or with labels, of which
// those below 0 are not trained on.
func (r jsonRow) tokens() (s sample, no *refusal) {
	if err := json.Unmarshal(r.InputIDs, &s.ids); err != nil {
		return s, refuse(BadTokens, "input_ids: %v", err)
	}
	var labels []int32
	key, data := "loss_mask", r.LossMask
	if !filled(data) {
		key, data = "labels", r.Labels
	}
	if !filled(data) {
		return s, refuse(BadTokens, "input_ids without loss_mask or labels: nothing says what to train on")
	}
	if err := json.Unmarshal(data, &labels); err != nil {
		return s, refuse(BadTokens, "%s: %v", key, err)
	}
	if len(labels) != len(s.ids) {
		return s, refuse(BadTokens, "%d input_ids with %d %s", len(s.ids), len(labels), key)
	}
	s.mask = make([]uint8, len(labels))
	for i, l := range labels {
		switch {
		case key == "labels" && l < 0, key == "loss_mask" && l == 0:
		case key == "labels" && l != s.ids[i]:
			return s, refuse(BadTokens, "label %d is %d, but token %d is %d: labels must not be shifted", i, l, i, s.ids[i])
		case key == "loss_mask" && l != 1:
			return s, refuse(BadTokens, "loss_mask %d is %d, want 0 or 1", i, l)
		default:
			s.mask[i] = 1
		}
	}
	return s, nil
}

// filled tells whether a JSON value is there and not null or empty.
func filled(data json.RawMessage) bool {
	if len(data) > 16 { // more than blanks, as the decoder leaves them
		return true
	}
	switch string(bytes.Join(bytes.Fields(data), nil)) {
	case "", "null", "[]", "{}", `""`:
		return false
	}
	return true
}
