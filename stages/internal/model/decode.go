package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Decoder decodes greedily with speculation. With a drafter of any quality the output is the target's own. It keeps its
// caches from prompt to prompt.
type Decoder struct {
	Target  *Target
	Drafter *Drafter
	EOS     []int32
	MaxNew  int // a sequence ends after the round that reaches it

	seq   *Session
	draft *DraftSession
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
	if err := c.start(len(prompt) + c.MaxNew + 2*c.Drafter.Config.BlockSize); err != nil {
		return Decoded{}, err
	}
	hidden, taken, err := c.seq.Append(prompt)
	if err != nil {
		return Decoded{}, err
	}
	first := c.Target.dev.Argmax(hidden.RowRange(len(prompt)-1, len(prompt)), c.Target.Head)
	if err := c.draft.Extend(taken); err != nil {
		return Decoded{}, err
	}
	out := Decoded{Output: first}
	for news := first; len(out.Output) < c.MaxNew && !c.ends(news); {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if news, err = c.round(out.Output[len(out.Output)-1]); err != nil {
			return out, fmt.Errorf("decode: round %d: %w", len(out.Rounds), err)
		}
		out.Output = append(out.Output, news...)
		out.Rounds = append(out.Rounds, len(news))
	}
	return out, c.Target.dev.Sync()
}

// start empties the caches, and replaces them by larger ones where capacity does not fit.
func (c *Decoder) start(capacity int) error {
	if c.seq != nil && c.seq.Capacity() >= capacity {
		c.draft.Reset()
		return c.seq.Truncate(0)
	}
	if c.seq != nil {
		c.seq.Free()
		c.draft.Free()
		c.seq = nil
	}
	seq, err := c.Target.NewSession(capacity, c.Drafter.Config.Taps)
	if err != nil {
		return err
	}
	c.seq, c.draft = seq, c.Drafter.NewSession(capacity)
	return nil
}

// round verifies one proposal after last, which is not in the caches yet, and returns the tokens emitted.
func (c *Decoder) round(last int32) ([]int32, error) {
	proposal, err := c.draft.Propose(last)
	if err != nil {
		return nil, err
	}
	n := c.seq.Len()
	hidden, taken, err := c.seq.Append(append([]int32{last}, proposal...))
	if err != nil {
		return nil, err
	}
	choice := c.Target.dev.Argmax(hidden, c.Target.Head)
	accepted := 0
	for accepted < len(proposal) && proposal[accepted] == choice[accepted] {
		accepted++
	}
	if err := c.draft.Extend(taken.RowRange(0, accepted+1)); err != nil {
		return nil, err
	}
	return choice[:accepted+1], c.seq.Truncate(n + accepted + 1)
}

func (c *Decoder) ends(ids []int32) bool {
	return slices.ContainsFunc(ids, func(id int32) bool { return slices.Contains(c.EOS, id) })
}
