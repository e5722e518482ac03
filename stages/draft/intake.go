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
		changed, left := t.w.Ledger.Changed(), t.flight.left()
		h, ok := t.take()
		if !ok {
			select {
			case <-t.park.Came():
			case <-changed:
			case <-left:
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

// take returns a parked hop that can be worked on or settled now. One that this rank is at work on, from another
// delivery, waits for the outcome.
func (t *trainer) take() (h worker.Hop, ok bool) {
	room := t.shared == nil || t.flight.len() < depth
	order := policy.Order{Deterministic: t.w.Config.Deterministic}
	t.w.Ledger.View(func(l *policy.Lineage) {
		h, ok = t.park.Choose(order, t.cost, func(r schema.Hop) bool {
			return l.Gen >= t.gen && (l.Settled(r.Batch) && !t.flight.has(r.Index) || room && t.workable(l, r))
		})
	})
	return h, ok
}

// cost is how long this rank is expected to take for a hop's batch.
func (t *trainer) cost(r schema.Hop) float64 {
	if !t.run.Has(r.Batch) {
		return 0
	}
	return t.costs.Seconds(r.Bucket, t.run.Work(t.run.Plan.Batch(int(r.Index))))
}

// workable says whether this rank may work on a hop now: its window is open, no other rank has claimed it, and this one
// is not at work on it already, from another delivery.
func (t *trainer) workable(l *policy.Lineage, r schema.Hop) bool {
	return r.Gen == t.gen && r.Window == l.Next && !l.Settled(r.Batch) && !l.Busy(r.Batch, t.me.Incarnation) && !t.flight.has(r.Index)
}

// admit claims a hop and hands its features to the device, or settles it without work.
func (t *trainer) admit(ctx context.Context, h worker.Hop) error {
	r := h.Record
	if !t.run.Has(r.Batch) { // nothing about it may get onto the ledger
		t.w.Log.Warn("hop of no planned batch", "batch", r.Index, "window", r.Window, "bucket", r.Bucket, "from", r.From)
		return t.refuse(ctx, h, errVoid)
	}
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
		if err == errVoid {
			if uerr := t.unclaim(ctx, r, it.claim); uerr != nil {
				err = uerr
			}
		}
		if err != nil {
			t.flight.leave(r.Index)
		}
	}
	if err != nil {
		t.buffers <- buf
		return t.refuse(ctx, h, err)
	}
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
	case errors.Is(err, errBusy):
		t.park.Return(h)
		return nil
	case errors.As(err, &bad):
		if err := t.w.Reject(ctx, h.Record, bad.reason); err != nil {
			return err
		}
	case err != errVoid:
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
		return t.park.Done(h)
	}
}

// errVoid drops a hop that needs no work: void, added already, dead, or in a slot that has been taken for another use.
var errVoid = errors.New("hop is void")

// errBusy keeps a hop parked: its batch is being worked on, here or by another rank.
var errBusy = errors.New("the batch is being worked on")

// badFeatures is what a batch is recomputed for, and rejected the second time.
type badFeatures struct{ reason string }

func (b *badFeatures) Error() string { return "bad features: " + b.reason }

// claim makes the batch this rank's, on the ledger and in flight here. A hop that comes again while the first is being
// worked on waits for what becomes of that; after the first was given up, its claim still holds.
func (t *trainer) claim(ctx context.Context, r schema.Hop, it *item) error {
	if !t.flight.enter(r.Index) {
		return errBusy
	}
	err := t.claimOnLedger(ctx, r, it)
	if err != nil {
		t.flight.leave(r.Index)
	}
	return err
}

func (t *trainer) claimOnLedger(ctx context.Context, r schema.Hop, it *item) error {
	c := schema.Claim{Batch: r.Batch, Rank: t.me.Rank, Incarnation: t.me.Incarnation}
	for {
		settled, err := t.w.Settled(ctx, r.Batch)
		if err != nil {
			return err
		}
		var s policy.Status
		var busy bool
		t.w.Ledger.View(func(l *policy.Lineage) {
			s, busy, c.RankEpoch = l.Of(r.Window, r.Index), l.Busy(r.Batch, t.me.Incarnation), l.Epoch
		})
		switch {
		case settled:
			return errVoid
		case busy:
			return errBusy
		case s.State == policy.Claimed && s.Owner == t.me.Incarnation:
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

// unclaim gives a claimed batch back whose features are gone, so that any rank may work on it when they come again.
func (t *trainer) unclaim(ctx context.Context, r schema.Hop, claim uint64) error {
	if t.shared == nil { // there is no other rank, and the claim still holds when they come
		return nil
	}
	none := schema.Claim{Batch: r.Batch}
	seq, err := t.w.Conn.Ledger().Claim(ctx, none, claim)
	if errors.Is(err, broker.ErrLost) {
		return nil
	}
	if err == nil {
		t.w.Ledger.Apply(broker.Entry{Seq: seq, Record: none})
	}
	return err
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
