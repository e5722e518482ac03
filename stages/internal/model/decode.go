package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Decoder decodes greedily with speculation. With a drafter of any quality the output is the target's own.
type Decoder struct {
	Target  *Target
	Drafter *Drafter
	EOS     []int32
	MaxNew  int // a sequence ends after the round that reaches it
}

// Decoded is one decoded prompt.
type Decoded struct {
	Output []int32 // the first token from the prompt alone, then every round's tokens; the last round is kept whole
	Rounds []int   // tokens each round emitted: those accepted and the target's own
}

// Decode continues a prompt. Each round, one forward of the target verifies the block that the drafter proposes after
// the last token; the round emits the proposals that match the target's choices, and the target's next one. Decoding ends
// after the round in which an end token appears or MaxNew is reached.
func (c *Decoder) Decode(ctx context.Context, prompt []int32) (Decoded, error) {
	if len(prompt) == 0 {
		return Decoded{}, errors.New("decode: the prompt is empty")
	}
	size := c.Drafter.Config.BlockSize
	capacity := len(prompt) + c.MaxNew + 2*size
	seq, err := c.Target.NewSession(capacity, c.Drafter.Config.Taps)
	if err != nil {
		return Decoded{}, err
	}
	draft := c.Drafter.NewSession(capacity)
	hidden, taken, err := seq.Append(prompt)
	if err != nil {
		return Decoded{}, err
	}
	first := c.Target.dev.Argmax(hidden.RowRange(len(prompt)-1, len(prompt)), c.Target.Head)
	if err := draft.Extend(taken); err != nil {
		return Decoded{}, err
	}
	out := Decoded{Output: first}
	for news := first; len(out.Output) < c.MaxNew && !c.ends(news); {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if news, err = c.round(seq, draft, out.Output[len(out.Output)-1]); err != nil {
			return out, fmt.Errorf("decode: round %d: %w", len(out.Rounds), err)
		}
		out.Output = append(out.Output, news...)
		out.Rounds = append(out.Rounds, len(news))
	}
	return out, c.Target.dev.Sync()
}

// round verifies one proposal after last, which is not in the caches yet, and returns the tokens emitted.
func (c *Decoder) round(seq *Session, draft *DraftSession, last int32) ([]int32, error) {
	proposal, err := draft.Propose(last)
	if err != nil {
		return nil, err
	}
	n := seq.Len()
	hidden, taken, err := seq.Append(append([]int32{last}, proposal...))
	if err != nil {
		return nil, err
	}
	choice := c.Target.dev.Argmax(hidden, c.Target.Head)
	accepted := 0
	for accepted < len(proposal) && proposal[accepted] == choice[accepted] {
		accepted++
	}
	if err := draft.Extend(taken.RowRange(0, accepted+1)); err != nil {
		return nil, err
	}
	return choice[:accepted+1], seq.Truncate(n + accepted + 1)
}

func (c *Decoder) ends(ids []int32) bool {
	return slices.ContainsFunc(ids, func(id int32) bool { return slices.Contains(c.EOS, id) })
}
