package chat

import (
	"fmt"
	"slices"
	"strings"
)

// marks stands in for the contents of a conversation by marks that none of its messages contains.
type marks struct {
	Conversation
	stem string
}

func newMarks(c Conversation) marks {
	for n := 0; ; n++ {
		m := marks{c, fmt.Sprintf("PENSTOCK%dTURN", n)}
		if !m.collide() {
			return m
		}
	}
}

func (m marks) collide() bool {
	for _, msg := range m.Messages {
		for _, text := range []string{msg.Content, msg.Reasoning, msg.Role, msg.Name, msg.ToolCallID, string(msg.ToolCalls)} {
			if strings.Contains(text, m.stem) {
				return true
			}
		}
	}
	return strings.Contains(string(m.Tools), m.stem)
}

// of is the mark of message i. No mark is part of another.
func (m marks) of(i int) string { return fmt.Sprintf("%s%dEND", m.stem, i) }

// renderMarked renders the conversation with marks for the contents of the chosen messages.
func (t *Template) renderMarked(m marks, chosen func(i int) bool) (text string, err error) {
	list := make([]Message, len(m.Messages))
	for i, msg := range m.Messages {
		if chosen(i) {
			msg.Content, msg.NoContent, msg.Reasoning, msg.ToolCalls = m.of(i), false, "", nil
		}
		list[i] = msg
	}
	return t.Render(Conversation{list, m.Tools}, false)
}

// verbatim is the layout with the chosen messages' contents as they are.
func (t *Template) verbatim(m marks, chosen func(Message) bool) (layout, error) {
	rest, err := t.renderMarked(m, func(i int) bool { return chosen(m.Messages[i]) })
	if err != nil {
		return layout{}, err
	}
	var l layout
	for i, msg := range m.Messages {
		if !chosen(msg) {
			continue
		}
		before, after, ok := strings.Cut(rest, m.of(i))
		if !ok || strings.Contains(after, m.of(i)) {
			return layout{}, fmt.Errorf("find the turn of message %d (%s): the chat template does not write it exactly once, in its place", i+1, msg.Role)
		}
		l.frames = append(l.frames, before)
		l.turns = append(l.turns, turn{text: msg.Content, assistant: msg.Role == Assistant})
		rest = after
	}
	l.frames = append(l.frames, rest)
	return l, nil
}

// rewritten is the layout at the assistant's messages with what the template makes of each, found by rendering one at a
// time between marks for the others. Where the header itself depends on the content, as with reasoning that the template
// moves, the turn begins where the generation prompt ends.
func (t *Template) rewritten(m marks) (layout, error) {
	l, err := t.verbatim(m, isAssistant)
	if err != nil {
		return layout{}, err
	}
	k := 0
	var before strings.Builder
	for i, msg := range m.Messages {
		if !isAssistant(msg) {
			continue
		}
		text, err := t.renderMarked(m, func(j int) bool { return j != i && isAssistant(m.Messages[j]) })
		if err != nil {
			return layout{}, err
		}
		after := m.after(l, i, k)
		head := l.frames[k]
		found, ok := between(text, before.String()+head, after)
		if at := strings.LastIndex(head, t.generation); !ok && t.generation != "" && at >= 0 {
			l.frames[k] = head[:at+len(t.generation)]
			found, ok = between(text, before.String()+l.frames[k], after)
		}
		if !ok {
			return layout{}, fmt.Errorf("find the turn of message %d (%s): the chat template changes other text with it", i+1, msg.Role)
		}
		l.turns[k].text = found
		l.turns[k].apart = t.apart(m, i, before.String()+l.frames[k])
		before.WriteString(head)
		before.WriteString(m.of(i))
		k++
	}
	return l, nil
}

// apart returns how many bytes the template writes for the reasoning of message i between head and the content: found by
// marking the content alone.
func (t *Template) apart(m marks, i int, head string) int {
	if m.Messages[i].Reasoning == "" {
		return 0
	}
	list := slices.Clone(m.Messages)
	for j := range list {
		if isAssistant(list[j]) {
			list[j].Content, list[j].NoContent = m.of(j), false
			if j != i {
				list[j].Reasoning, list[j].ToolCalls = "", nil
			}
		}
	}
	text, err := t.Render(Conversation{list, m.Tools}, false)
	rest, ok := strings.CutPrefix(text, head)
	if n := strings.Index(rest, m.of(i)); err == nil && ok && n > 0 {
		return n
	}
	return 0
}

// after is the marked text that follows the mark of message i, turn k of the layout.
func (m marks) after(l layout, i, k int) string {
	var b strings.Builder
	for j := i + 1; j < len(m.Messages); j++ {
		if isAssistant(m.Messages[j]) {
			k++
			b.WriteString(l.frames[k])
			b.WriteString(m.of(j))
		}
	}
	b.WriteString(l.frames[k+1])
	return b.String()
}

// between returns the text between a known beginning and a known end.
func between(text, before, after string) (string, bool) {
	rest, ok := strings.CutPrefix(text, before)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, after)
}
