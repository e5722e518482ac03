package draft

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/vmihailenco/msgpack/v5"

	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/model"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/reduce"
)

// tally is what is summed beside the gradients.
type tally struct {
	Result    model.Result
	Documents uint32
	Tokens    uint64
	Slots     uint64
	Keys      uint64 // of the documents, as they were read
}

func tallyOf(r model.Result, h schema.Hop, slots int, p plan.Packed) tally {
	t := tally{Documents: h.Documents, Tokens: uint64(h.Tokens), Slots: uint64(slots)}
	t.Result.Add(r)
	for _, k := range p.Keys {
		t.Keys += k
	}
	return t
}

func (t *tally) add(o tally) {
	t.Result.Add(o.Result)
	t.Documents += o.Documents
	t.Tokens += o.Tokens
	t.Slots += o.Slots
	t.Keys += o.Keys
}

// sum is a window's reduced sum.
type sum struct {
	grads *model.Params
	tally tally
	hash  uint64 // over gradient and tally; 0 where there is nobody to agree with
}

// reduce adds up the parts of a complete window: each member's, in the order of the members, or in deterministic order
// each batch's, in the order of the plan.
func (t *trainer) reduce(ctx context.Context, o *window, s standing) (sum, error) {
	if t.total == nil || len(s.members) < 2 && !t.w.Config.Deterministic {
		return sum{grads: t.parts[0], tally: o.tallies[0]}, nil
	}
	round := reduce.Round{Gen: t.gen, Window: o.number, Epoch: s.epoch}
	parts := t.partsOf(o, s)
	if o.head != nil && !o.head.is(o) {
		t.early.Void()
	}
	for _, p := range parts {
		if p.Member != t.me {
			continue
		}
		note, err := msgpack.Marshal(o.tallies[p.Index])
		if err == nil {
			err = t.group.Bring(round, p.Index, note)
		}
		if err != nil {
			return sum{}, err
		}
	}
	notes, err := t.group.Sum(ctx, round, parts, t.total.Flat)
	if err != nil {
		return sum{}, err
	}
	r := sum{grads: t.total}
	for i, note := range notes {
		var one tally
		if err := msgpack.Unmarshal(note, &one); err != nil {
			return sum{}, fmt.Errorf("tally of %s: %w", parts[i].Member.Rank, err)
		}
		r.tally.add(one)
	}
	t.turn.did(turnReduce)
	if len(s.members) > 1 {
		r.hash, err = t.hash(r)
		t.turn.did(turnCheck)
	}
	return r, err
}

func (t *trainer) partsOf(o *window, s standing) (parts []reduce.Part) {
	if !t.w.Config.Deterministic {
		for _, m := range s.members {
			parts = append(parts, reduce.Part{Member: m})
		}
		return parts
	}
	for i, id := range s.added {
		parts = append(parts, reduce.Part{Member: s.owners[i], Index: t.part(o, id)})
	}
	return parts
}

// hash is over all bits of a sum.
func (t *trainer) hash(s sum) (uint64, error) {
	note, err := msgpack.Marshal(s.tally)
	if err != nil {
		return 0, err
	}
	h := fnv.New64a()
	_, _ = h.Write(note)
	bits, err := s.grads.Checksum()
	return h.Sum64() ^ bits, err
}

// during returns a context that ends when a window's rank epoch does, or the window.
func (t *trainer) during(ctx context.Context, o *window, s standing) (context.Context, context.CancelFunc) {
	if len(s.members) < 2 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = t.w.Ledger.Wait(ctx, func(l *policy.Lineage) bool { return t.over(l, o, s) })
		cancel()
	}()
	return ctx, func() { cancel(); <-done }
}

// over reports whether a round of the window is over: committed, or void.
func (t *trainer) over(l *policy.Lineage, o *window, s standing) bool {
	return l.Gen != t.gen || l.Epoch != s.epoch || l.Next != o.number
}
