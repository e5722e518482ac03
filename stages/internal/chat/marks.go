package chat

import (
	"fmt"
	"slices"
	"strings"
)

// marks stands in for the contents of a conversation by marks that none of its messages contains.
type marks struct {
	parsed
	stem string
}

func newMarks(p parsed) marks {
	for n := 0; ; n++ {
		m := marks{p, fmt.Sprintf("PENSTOCK%dTURN", n)}
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

// renderWith renders the conversation with each message as change leaves it.
func (t *Template) renderWith(m marks, change func(i int, msg *Message)) (string, error) {
	p := m.parsed
	p.Messages = slices.Clone(p.Messages)
	for i := range p.Messages {
		change(i, &p.Messages[i])
	}
	return t.render(p, false)
}

// mark puts message i's mark in the place of its content; nothing else is left of what it says.
func (m marks) mark(i int, msg *Message) {
	msg.Content, msg.NoContent, msg.Reasoning, msg.ToolCalls = m.of(i), false, "", nil
}

// cut returns the text before the mark of message i and after it, which must stand there once.
func (m marks) cut(text string, i int) (before, after string, err error) {
	before, after, ok := strings.Cut(text, m.of(i))
	if !ok || strings.Contains(after, m.of(i)) {
		return "", "", fmt.Errorf("find the turn of message %d (%s): the chat template does not write it exactly once, in its place", i+1, m.Messages[i].Role)
	}
	return before, after, nil
}

// verbatim is the layout with the chosen messages' contents as they are.
func (t *Template) verbatim(m marks, chosen func(Message) bool) (layout, error) {
	rest, err := t.renderWith(m, func(i int, msg *Message) {
		if chosen(*msg) {
			m.mark(i, msg)
		}
	})
	if err != nil {
		return layout{}, err
	}
	var l layout
	for i, msg := range m.Messages {
		if !chosen(msg) {
			continue
		}
		before, after, err := m.cut(rest, i)
		if err != nil {
			return layout{}, err
		}
		l.frames = append(l.frames, before)
		l.turns = append(l.turns, turn{text: msg.Content, assistant: msg.Role == Assistant})
		rest = after
	}
	l.frames = append(l.frames, rest)
	return l, nil
}

// rewritten is l, the layout at the assistant's messages, with what the template makes of each. Two renderings tell: one
// with marks for every second of those messages, and one with marks for the others, so that each stands between marks.
// Where the header itself depends on the content, as with reasoning that the template moves, the turn begins where the
// generation prompt ends.
func (t *Template) rewritten(m marks, l layout) (layout, error) {
	at := m.assistants()
	frames := slices.Clone(l.frames)
	for side := range 2 {
		regions, err := t.regions(m, at, func(k int, msg *Message) {
			if k%2 != side {
				m.mark(at[k], msg)
			}
		}, func(k int) bool { return k%2 != side })
		if err != nil {
			return layout{}, err
		}
		for k := side; k < len(at); k += 2 {
			found, ok := between(regions[k+1], frames[k], frames[k+1])
			if n := strings.LastIndex(frames[k], t.generation); !ok && t.generation != "" && n >= 0 {
				l.frames[k] = frames[k][:n+len(t.generation)]
				found, ok = between(regions[k+1], l.frames[k], frames[k+1])
			}
			if !ok {
				return layout{}, fmt.Errorf("find the turn of message %d (%s): the chat template changes other text with it", at[k]+1, m.Messages[at[k]].Role)
			}
			l.turns[k].text = found
		}
	}
	if slices.ContainsFunc(m.Messages, func(msg Message) bool { return msg.Reasoning != "" }) {
		t.setApart(m, at, l)
	}
	return l, nil
}

// setApart sets how many bytes the template writes for the reasoning of a message between its header and its content:
// found with every content marked, and the reasoning left to every second of the messages.
func (t *Template) setApart(m marks, at []int, l layout) {
	for side := range 2 {
		regions, err := t.regions(m, at, func(k int, msg *Message) {
			msg.Content, msg.NoContent = m.of(at[k]), false
			if k%2 != side {
				msg.Reasoning, msg.ToolCalls = "", nil
			}
		}, func(int) bool { return true })
		if err != nil {
			return
		}
		for k := side; k < len(at); k += 2 {
			if rest, ok := strings.CutPrefix(regions[k], l.frames[k]); ok && m.Messages[at[k]].Reasoning != "" {
				l.turns[k].apart = len(rest)
			}
		}
	}
}

// assistants are the numbers of the assistant's messages.
func (m marks) assistants() (at []int) {
	for i, msg := range m.Messages {
		if isAssistant(msg) {
			at = append(at, i)
		}
	}
	return at
}

// regions renders the conversation with the messages at as change leaves them, some of them with their mark. regions[k] is
// the text before the mark of at[k], back to the mark before it; the last one the text after all marks.
func (t *Template) regions(m marks, at []int, change func(k int, msg *Message), marked func(k int) bool) ([]string, error) {
	rest, err := t.renderWith(m, func(i int, msg *Message) {
		if k, ok := slices.BinarySearch(at, i); ok {
			change(k, msg)
		}
	})
	if err != nil {
		return nil, err
	}
	regions := make([]string, len(at)+1)
	for k, i := range at {
		if !marked(k) {
			continue
		}
		if regions[k], rest, err = m.cut(rest, i); err != nil {
			return nil, err
		}
	}
	regions[len(at)] = rest
	return regions, nil
}

// between returns the text between a known beginning and a known end.
func between(text, before, after string) (string, bool) {
	rest, ok := strings.CutPrefix(text, before)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, after)
}
