package chat

import (
	"fmt"
	"slices"
	"strings"
)

// Encode returns the ids of a conversation and its loss mask, one entry a token: 1 on what the assistant wrote, its tool
// calls included, and the token that ends its turn, as far as the policy has it; 0 elsewhere.
//
// The text is encoded piece by piece, as it comes about when a model is served: each turn's header, then its content
// with the token that ends it, then what follows. The pieces join to what Render gives.
func (t *Template) Encode(c Conversation, p Policy) (ids []int32, mask []uint8, err error) {
	read, err := c.parse()
	if err != nil {
		return nil, nil, err
	}
	text, err := t.render(read, false)
	if err != nil {
		return nil, nil, err
	}
	layout, err := t.layout(read, text)
	if err != nil {
		return nil, nil, err
	}
	add := func(text string, loss uint8) {
		ids = t.tok.Continue(ids, text)
		for len(mask) < len(ids) {
			mask = append(mask, loss)
		}
	}
	add(layout.frames[0], 0)
	on := p.trained(layout.turns)
	for i, turn := range layout.turns {
		frame := layout.frames[i+1]
		end := t.turnEnd(frame)
		loss, from := uint8(0), len(ids)
		if on[i] {
			loss = 1
		}
		add(turn.text+frame[:end], loss)
		if p.SkipThinking && on[i] {
			t.skip(ids, mask, from, turn.text[:turn.thinking()])
		}
		add(frame[end:], 0)
	}
	return ids, mask, nil
}

// skip takes the tokens of text, with which the piece that starts at token from begins, out of the mask.
func (t *Template) skip(ids []int32, mask []uint8, from int, text string) {
	if text == "" {
		return
	}
	for i, id := range t.tok.Continue(slices.Clone(ids[:from]), text)[from:] {
		if from+i >= len(ids) || ids[from+i] != id {
			return
		}
		mask[from+i] = 0
	}
}

// turnEnd returns how many bytes of the text after a content belong to the turn: up to the special token that ends it,
// nothing where other text comes first.
func (t *Template) turnEnd(frame string) int {
	rest := strings.TrimLeft(frame, " \t\r\n")
	longest := 0
	for _, s := range t.specials {
		if len(s) > longest && strings.HasPrefix(rest, s) {
			longest = len(s)
		}
	}
	if longest == 0 {
		return 0
	}
	return len(frame) - len(rest) + longest
}

// layout is a rendered conversation taken apart: frames[0], turns[0], frames[1], ..., frames[len(turns)].
type layout struct {
	frames []string // what the template writes around the turns
	turns  []turn
}

// turn is what the template makes of one message's content.
type turn struct {
	text      string
	assistant bool
	apart     int // bytes at its beginning that the template makes of a reasoning kept apart from the content
}

// thinking returns how many bytes at the beginning of a turn are thinking.
func (t turn) thinking() int { return max(t.apart, thinking(t.text)) }

func (l layout) join() string {
	var b strings.Builder
	b.WriteString(l.frames[0])
	for i, turn := range l.turns {
		b.WriteString(turn.text)
		b.WriteString(l.frames[i+1])
	}
	return b.String()
}

// layout takes text, the rendered messages, apart: at every content if the template writes them all as they are, else at
// the assistant's, else at what the template makes of the assistant's; where it refuses marks, by what it makes of the
// conversation's beginnings.
func (t *Template) layout(p parsed, text string) (layout, error) {
	m := newMarks(p)
	if l, err := t.verbatim(m, func(Message) bool { return true }); err == nil && l.join() == text {
		return l, nil
	}
	l, err := t.verbatim(m, isAssistant)
	if err == nil && l.join() == text {
		return l, nil
	}
	if err == nil {
		l, err = t.rewritten(m, l)
	}
	if err == nil && l.join() == text {
		return l, nil
	}
	if l, ok := t.beginnings(m, text); ok {
		return l, nil
	}
	if err != nil {
		return layout{}, err
	}
	return layout{}, fmt.Errorf("find the assistant's turns: the chat template writes them in a way that depends on one another")
}

func isAssistant(m Message) bool { return m.Role == Assistant }
