package chat

import (
	"slices"
	"strings"
)

// beginnings is the layout by how each of the assistant's turns goes on from the generation prompt after what comes before
// it. It serves templates that refuse a conversation with marks in it, as some do where a tool answers and nobody called.
func (t *Template) beginnings(m marks, text string) (layout, bool) {
	var l layout
	done := 0
	for _, i := range m.assistants() {
		head, err := t.render(m.first(i), true)
		if err != nil || len(head) < done {
			return layout{}, false
		}
		whole, err := t.render(m.first(i+1), false)
		said, ok := strings.CutPrefix(whole, head)
		if err != nil || !ok || said == "" {
			return layout{}, false
		}
		said = t.withoutEnd(said)
		if !strings.HasPrefix(text, head) || !strings.HasPrefix(text[len(head):], said) {
			return layout{}, false
		}
		l.frames = append(l.frames, text[done:len(head)])
		l.turns = append(l.turns, turn{text: said, assistant: true, apart: t.apart(m, i, head)})
		done = len(head) + len(said)
	}
	l.frames = append(l.frames, text[done:])
	return l, true
}

// first is the conversation of the first n messages.
func (p parsed) first(n int) parsed {
	p.Messages = p.Messages[:n]
	return p
}

// withoutEnd takes the special token that ends a turn off its text.
func (t *Template) withoutEnd(said string) string {
	rest, longest := strings.TrimRight(said, " \t\r\n"), 0
	for _, s := range t.specials {
		if len(s) > longest && strings.HasSuffix(rest, s) {
			longest = len(s)
		}
	}
	if longest == 0 {
		return said
	}
	return rest[:len(rest)-longest]
}

// apart returns how many bytes the template writes for the reasoning of message i between head and the content.
func (t *Template) apart(m marks, i int, head string) int {
	if m.Messages[i].Reasoning == "" {
		return 0
	}
	p := m.first(i + 1)
	p.Messages = slices.Clone(p.Messages)
	p.Messages[i].Content, p.Messages[i].NoContent = m.of(i), false
	whole, err := t.render(p, false)
	rest, ok := strings.CutPrefix(whole, head)
	if n := strings.Index(rest, m.of(i)); err == nil && ok && n > 0 {
		return n
	}
	return 0
}
