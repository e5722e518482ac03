package chat

import (
	"fmt"
	"strings"
)

// marks stands in for the contents of a conversation by marks that none of its messages contains.
type marks struct {
	messages []Message
	stem     string
}

func newMarks(messages []Message) marks {
	for n := 0; ; n++ {
		m := marks{messages, fmt.Sprintf("PENSTOCK%dTURN", n)}
		if !m.collide() {
			return m
		}
	}
}

func (m marks) collide() bool {
	for _, msg := range m.messages {
		if strings.Contains(msg.Content, m.stem) || strings.Contains(msg.Reasoning, m.stem) || strings.Contains(msg.Role, m.stem) {
			return true
		}
	}
	return false
}

// of is the mark of message i. No mark is part of another.
func (m marks) of(i int) string { return fmt.Sprintf("%s%dEND", m.stem, i) }

// renderMarked renders the conversation with marks for the contents of the chosen messages.
func (t *Template) renderMarked(m marks, chosen func(i int) bool) (text string, err error) {
	list := make([]Message, len(m.messages))
	for i, msg := range m.messages {
		if chosen(i) {
			msg.Content, msg.Reasoning = m.of(i), ""
		}
		list[i] = msg
	}
	return t.Render(list, false)
}

// verbatim is the layout with the chosen messages' contents as they are.
func (t *Template) verbatim(m marks, chosen func(Message) bool) (layout, error) {
	rest, err := t.renderMarked(m, func(i int) bool { return chosen(m.messages[i]) })
	if err != nil {
		return layout{}, err
	}
	var l layout
	for i, msg := range m.messages {
		if !chosen(msg) {
			continue
		}
		before, after, ok := strings.Cut(rest, m.of(i))
		if !ok || strings.Contains(after, m.of(i)) {
			return layout{}, fmt.Errorf("find the turn of message %d (%s): the chat template does not write it exactly once, in its place", i+1, msg.Role)
		}
		l.frames = append(l.frames, before)
		l.turns = append(l.turns, turn{msg.Content, msg.Role == Assistant})
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
	for i, msg := range m.messages {
		if !isAssistant(msg) {
			continue
		}
		text, err := t.renderMarked(m, func(j int) bool { return j != i && isAssistant(m.messages[j]) })
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
		before.WriteString(head)
		before.WriteString(m.of(i))
		k++
	}
	return l, nil
}

// after is the marked text that follows the mark of message i, turn k of the layout.
func (m marks) after(l layout, i, k int) string {
	var b strings.Builder
	for j := i + 1; j < len(m.messages); j++ {
		if isAssistant(m.messages[j]) {
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
