package draft

import (
	"context"
	"errors"
	"fmt"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/account"
	"penstock/stages/internal/lineage"
	"penstock/stages/internal/model"
	"penstock/stages/internal/plan"
)

// open is the open window: the sum of the gradients of its batches, and what is on its way into it.
type window struct {
	number  uint32
	planned []plan.BatchPlan
	ids     []uint32
	result  model.Result // summed
	line    lineage.Line
	roots   []string        // acknowledge subjects
	early   map[uint32]item // deterministic: claimed, before their turn
	waiting int             // gradients computed whose addition the ledger has not confirmed
}

// scratch is a batch's gradient on its way into the sum.
type scratch struct {
	grads  *model.Params
	item   item
	packed plan.Packed
	result model.Result
	slots  uint64
	err    error // of the ledger
}

// window computes, adds, commits and steps one window.
func (t *trainer) window(ctx context.Context) error {
	o := t.openWindow()
	t.grads.Zero()
	for {
		var added, dead []uint32
		var ok bool
		changed := t.w.Ledger.Changed()
		t.w.Ledger.View(func(l *policy.Lineage) { added, dead, ok = l.Complete(o.number, o.ids) })
		if ok && o.waiting == 0 {
			t.w.Book.Enter(account.Step)
			return t.commit(ctx, o, added, dead)
		}
		if it, ok := o.turn(t); ok {
			if err := t.compute(ctx, o, it); err != nil {
				return err
			}
			continue
		}
		t.w.Book.Enter(account.NoInput)
		ready := t.ready
		if o.waiting > 0 && len(t.scratch) == 0 {
			ready = nil // every scratch gradient is on its way
		}
		select {
		case it := <-ready:
			if err := t.accept(ctx, o, it); err != nil {
				return err
			}
		case s := <-t.recorded:
			if err := t.add(ctx, o, s); err != nil {
				return err
			}
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// accept computes a claimed batch, keeps it for its turn, or discards one that died while it was on its way.
func (t *trainer) accept(ctx context.Context, o *window, it item) error {
	switch {
	case it.hop.Record.Window != o.number:
		return t.discard(ctx, it)
	case t.w.Config.Deterministic:
		o.early[it.hop.Record.Index] = it
		return nil
	}
	return t.compute(ctx, o, it)
}

func (t *trainer) openWindow() *window {
	o := &window{number: t.state.Window, planned: t.run.Plan.Window(int(t.state.Window)), early: map[uint32]item{}}
	o.line = lineage.Line{Gen: t.gen, Window: o.number}
	for _, p := range o.planned {
		o.ids = append(o.ids, uint32(p.Index))
		o.line.Epoch = uint32(p.Epoch)
	}
	return o
}

// turn returns, in deterministic order, the claimed batch whose turn it is. One gradient is on its way at a time.
func (o *window) turn(t *trainer) (item, bool) {
	if !t.w.Config.Deterministic || o.waiting > 0 {
		return item{}, false
	}
	var lowest uint32
	var ok bool
	t.w.Ledger.View(func(l *policy.Lineage) { lowest, ok = l.Lowest(o.number, o.ids) })
	it, here := o.early[lowest]
	if !ok || !here {
		return item{}, false
	}
	delete(o.early, lowest)
	return it, true
}

// compute runs the drafter on one batch and sends the gradient on to the ledger.
func (t *trainer) compute(ctx context.Context, o *window, it item) error {
	var s scratch
	select {
	case s.grads = <-t.scratch:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.w.Status.Handoff.Add(it.hop.Record.Sent)
	t.w.Book.Enter(account.Compute)
	defer t.w.Book.Enter(account.NoInput)
	s.item = it
	trained := t.traces.training(ctx, it.hop)
	err := t.gradient(&s)
	trained(err)
	if err != nil {
		return fmt.Errorf("batch %d: %w", it.hop.Record.Index, err)
	}
	o.waiting++
	return t.settle.Do(ctx, func(ctx context.Context) error { return t.record(ctx, s) })
}

// gradient is the arithmetic of one batch: Σ weighted loss, Σ weight, and the gradient of the former.
func (t *trainer) gradient(s *scratch) error {
	h := s.item.hop.Record
	p, err := t.run.Batch(h.Batch, h.Documents, h.Tokens)
	if err != nil {
		return err
	}
	s.packed = t.run.Load(p)
	b := model.Batch{IDs: s.packed.IDs, Mask: s.packed.Mask, Offsets: s.packed.Offsets, Hidden: s.item.feats,
		Anchors: t.run.Anchors(p, s.packed)}
	s.grads.Zero()
	s.result, err = t.drafter.Step(&b, t.loss, s.grads)
	s.slots = uint64(len(b.Anchors) * t.drafter.Config.BlockSize)
	return err
}

// record writes the addition to the ledger; only then does the gradient go into the sum.
func (t *trainer) record(ctx context.Context, s scratch) error {
	r := s.item.hop.Record
	rec := schema.Added{Batch: r.Batch, Rank: t.w.Instance, Incarnation: t.w.Incarnation, Documents: r.Documents, Tokens: r.Tokens, Slots: uint32(s.slots)}
	seq, err := t.w.Conn.Ledger().Added(ctx, rec, s.item.claim)
	if err != nil && !errors.Is(err, broker.ErrLost) {
		return err
	}
	s.err = err
	if err == nil {
		t.w.Ledger.Apply(broker.Entry{Seq: seq, Record: rec})
	}
	select {
	case t.recorded <- s:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// add puts a recorded gradient into the window's sum; one that the ledger refused is dropped with its hop.
func (t *trainer) add(ctx context.Context, o *window, s scratch) error {
	o.waiting--
	h := s.item.hop
	if s.err == nil {
		t.w.Book.Enter(account.Compute)
		t.grads.Add(s.grads)
		o.result.Add(s.result)
		o.roots = append(o.roots, h.Record.Root)
		o.line.Documents += h.Record.Documents
		o.line.Tokens += uint64(h.Record.Tokens)
		o.line.Slots += s.slots
		for _, k := range s.packed.Keys {
			o.line.Keys += k
		}
		t.w.Status.Batches.Add(1)
		t.w.Status.Tokens.Add(uint64(h.Record.Tokens))
	} else {
		t.w.Keeper.Drop(h.Record.Root)
	}
	t.flight.leave(h.Record.Index)
	t.buffers <- s.item.whole
	t.scratch <- s.grads
	return t.settle.Do(ctx, t.settled(h))
}
