package chat

import (
	"fmt"
	"strings"
)

// Policy says which of the assistant's words are trained on.
type Policy struct {
	LastTurn     bool // only the last turn
	SkipThinking bool // of each turn, only what follows its thinking
}

// Turns that ParsePolicy knows.
const (
	AllTurns = "all"
	LastTurn = "last"
)

// ParsePolicy reads a policy as a configuration states it: turns is all or last, thinking train or skip; empty for the
// first of each.
func ParsePolicy(turns, thinking string) (Policy, error) {
	p := Policy{LastTurn: turns == LastTurn, SkipThinking: thinking == "skip"}
	if turns != "" && turns != AllTurns && turns != LastTurn {
		return p, fmt.Errorf("turns: %q is neither %s nor %s", turns, AllTurns, LastTurn)
	}
	if thinking != "" && thinking != "train" && thinking != "skip" {
		return p, fmt.Errorf("thinking: %q is neither train nor skip", thinking)
	}
	return p, nil
}

// trained tells which turns of a layout are trained on.
func (p Policy) trained(turns []turn) []bool {
	on, last := make([]bool, len(turns)), -1
	for i, t := range turns {
		on[i] = t.assistant
		if t.assistant {
			last = i
		}
	}
	if p.LastTurn {
		for i := range on {
			on[i] = i == last
		}
	}
	return on
}

// The tags of thinking that stands in a turn's own text.
const thinkOpen, thinkClose = "<think>", "</think>"

// thinking returns how many bytes at the beginning of a turn are thinking, with the white space that follows.
func thinking(text string) int {
	rest := strings.TrimLeft(text, " \t\r\n")
	if !strings.HasPrefix(rest, thinkOpen) {
		return 0
	}
	_, after, ok := strings.Cut(rest, thinkClose)
	if !ok {
		return len(text) // cut short while thinking
	}
	return len(text) - len(strings.TrimLeft(after, " \t\r\n"))
}
