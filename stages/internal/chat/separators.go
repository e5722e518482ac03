package chat

import (
	"encoding/json"
	"strings"
)

// The template engine writes the two separators of Unicode as escapes where it writes JSON, Python as they are. They are put
// right in what was rendered, unless somebody wrote such an escape himself.
var separators = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")

func (p parsed) restoreSeparators(text string) string {
	if p.spelled || !strings.Contains(text, `\u202`) {
		return text
	}
	return separators.Replace(text)
}

// spellsSeparators tells whether a text holds an escape of a separator, or JSON one of its backslash.
func (c Conversation) spellsSeparators() bool {
	spelled := func(data json.RawMessage) bool { return strings.Contains(string(data), `\\u202`) }
	for _, m := range c.Messages {
		if strings.Contains(m.Content, `\u202`) || strings.Contains(m.Reasoning, `\u202`) || spelled(m.ToolCalls) {
			return true
		}
	}
	return spelled(c.Tools)
}
