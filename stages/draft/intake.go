package draft

import (
	"context"
	"errors"
	"fmt"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
	"penstock/stages/internal/worker"
)

// intakes is how many batches are claimed and copied at once, ahead of the device.
const intakes = 4

// item is one batch on its way through the rank.
type item struct {
	hop   worker.Hop
	claim uint64         // ledger sequence of the claim
	feats kernels.Tensor // own copy of the features, the front of whole
	whole kernels.Tensor // from the buffers, and back to them
}

// intake claims hops of the open window and copies their features until ctx ends.
func (t *trainer) intake(ctx context.Context) error {
	for {
		changed := t.w.Ledger.Changed()
		h, ok := t.park.Take(t.workable())
		if !ok {
			select {
			case <-t.park.Came():
			case <-changed:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			continue
		}
		t.park.Wake() // another intake may find the next one
		if err := t.admit(ctx, h); err != nil {
			return fmt.Errorf("batch %d: %w", h.Record.Index, err)
		}
	}
}

// workable says which hops can be worked on or settled now.
func (t *trainer) workable() func(schema.Hop) bool {
	var lineage policy.Lineage
	t.w.Ledger.View(func(l *policy.Lineage) { lineage = *l })
	return func(h schema.Hop) bool { return lineage.Gen >= t.gen && (h.Gen != t.gen || h.Window <= lineage.Next) }
}

// admit claims a hop and hands its features to the device, or settles it without work.
func (t *trainer) admit(ctx context.Context, h worker.Hop) error {
	r := h.Record
	var buf kernels.Tensor
	select {
	case buf = <-t.buffers:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	it := item{hop: h, whole: buf}
	err := t.claim(ctx, r, &it)
	if err == nil {
		copied := t.traces.copying(ctx, h)
		it.feats, err = t.copy(ctx, r, buf)
		copied(err)
		if err != nil {
			t.flight.leave(r.Index)
		}
	}
	if err != nil {
		t.buffers <- buf
		return t.refuse(ctx, h, err)
	}
	t.w.Keeper.Hold(r.Root)
	select {
	case t.ready <- it:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refuse settles a hop that is not worked on, for the reason that err gives.
func (t *trainer) refuse(ctx context.Context, h worker.Hop, err error) error {
	var bad *badFeatures
	switch {
	case errors.As(err, &bad):
		if err := t.w.Reject(ctx, h.Record, bad.reason); err != nil {
			return err
		}
	case !errors.Is(err, errVoid):
		return err
	}
	return t.settle.Do(ctx, t.settled(h))
}

// settled releases the packer's slot and acknowledges the hop.
func (t *trainer) settled(h worker.Hop) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := t.w.Release(ctx, h.Record.SlotRef); err != nil {
			return err
		}
		return t.park.Done(ctx, h)
	}
}

// errVoid drops a hop that needs no work: void, added already, dead, or in a slot that has been taken for another use.
var errVoid = errors.New("hop is void")

// badFeatures is what a batch is recomputed for, and rejected the second time.
type badFeatures struct{ reason string }

func (b *badFeatures) Error() string { return "bad features: " + b.reason }

// claim makes the batch this rank's, on the ledger and in flight here. A hop that comes again while the first is being
// worked on is void; after the first was given up, its claim still holds.
func (t *trainer) claim(ctx context.Context, r schema.Hop, it *item) error {
	if !t.flight.enter(r.Index) {
		return errVoid
	}
	err := t.claimOnLedger(ctx, r, it)
	if err != nil {
		t.flight.leave(r.Index)
	}
	return err
}

func (t *trainer) claimOnLedger(ctx context.Context, r schema.Hop, it *item) error {
	c := schema.Claim{Batch: r.Batch, Rank: t.w.Instance, Incarnation: t.w.Incarnation}
	for {
		var s policy.Status
		var stale bool
		t.w.Ledger.View(func(l *policy.Lineage) { s, stale = l.Of(r.Window, r.Index), l.Stale(r.Batch) })
		if stale || s.State >= policy.Added {
			return errVoid
		}
		if s.State == policy.Claimed && s.Owner == t.w.Incarnation {
			it.claim = s.Seq
			return nil
		}
		seq, err := t.w.Conn.Ledger().Claim(ctx, c, s.Seq)
		var lost *broker.LostError
		if errors.As(err, &lost) {
			t.w.Ledger.Apply(lost.Winner)
			continue
		}
		if err != nil {
			return err
		}
		it.claim = seq
		t.w.Ledger.Apply(broker.Entry{Seq: seq, Record: c})
		return nil
	}
}

// copy brings the features into an own buffer, so that the packer's slot is never read while a kernel runs, and
// discards them if the slot was taken for another use meanwhile.
func (t *trainer) copy(ctx context.Context, r schema.Hop, buf kernels.Tensor) (kernels.Tensor, error) {
	if err := t.run.Check(r, t.width); err != nil {
		return buf, &badFeatures{err.Error()}
	}
	rows, n := int(r.Tokens), int(r.Tokens)*t.width
	feats := kernels.Host(rows, t.width, buf.F32[:n])
	err := t.views.Read(ctx, r.SlotRef, rows, t.width, func(from kernels.Tensor) error {
		copy(feats.F32, from.F32)
		return nil
	})
	switch {
	case errors.Is(err, worker.ErrGone):
		return buf, errVoid
	case errors.Is(err, mem.ErrForged):
		return buf, &badFeatures{err.Error()}
	case err != nil:
		return buf, err
	}
	if sum := t.sum(feats.F32); sum != r.Checksum {
		return buf, &badFeatures{fmt.Sprintf("checksum %016x, the packer wrote %016x", sum, r.Checksum)}
	}
	return feats, nil
}
