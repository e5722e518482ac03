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

// intakes is how many batches are claimed at once, ahead of the device.
const intakes = 4

// item is one batch on its way through the rank.
type item struct {
	hop   worker.Hop
	claim uint64 // ledger sequence of the claim
}

// intake claims hops of the open window until ctx ends; a rank alone, those of the next one too, so that its batches are
// there when the window opens.
func (t *trainer) intake(ctx context.Context) error {
	for {
		changed, left := t.w.Ledger.Changed(), t.flight.left()
		may, err := t.mayBegin(ctx)
		if err != nil {
			return err
		}
		h, ok := t.take(may)
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

// take returns a parked hop that can be worked on, if this rank may begin one, or settled now. One that this rank is at work
// on, from another delivery, waits for the outcome.
func (t *trainer) take(may bool) (h worker.Hop, ok bool) {
	order := policy.Order{Deterministic: t.w.Config.Deterministic}
	t.w.Ledger.View(func(l *policy.Lineage) {
		room := may && (t.shared == nil || t.flight.len() < t.hold(l))
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

// workable says whether this rank may work on a hop now: its window is open, or for a rank alone the next one, no other rank
// has claimed it, and this one is not at work on it already, from another delivery.
func (t *trainer) workable(l *policy.Lineage, r schema.Hop) bool {
	open := r.Window == l.Next || t.shared == nil && r.Window == l.Next+1
	return r.Gen == t.gen && open && !l.Settled(r.Batch) && !l.Busy(r.Batch, t.me.Incarnation) && !t.flight.has(r.Index)
}

// admit claims a hop for the device, or settles it without work.
func (t *trainer) admit(ctx context.Context, h worker.Hop) error {
	r := h.Record
	if !t.run.Has(r.Batch) { // nothing about it may get onto the ledger
		t.w.Log.Warn("hop of no planned batch", "batch", r.Index, "window", r.Window, "bucket", r.Bucket, "from", r.From)
		t.askAgain()
		return t.refuse(ctx, h, errVoid)
	}
	it := item{hop: h}
	if err := t.claim(ctx, r, &it); err != nil {
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
		return err
	}
	t.deference.taken()
	return nil
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

// use calls f with a hop's features where the packer has left them. What f did is to be discarded if there is an error: if
// the slot was taken for another use meanwhile, if its owner is gone, or if the features are not what the packer wrote.
func (t *trainer) use(ctx context.Context, r schema.Hop, f func(kernels.Tensor) error) error {
	if err := t.run.Check(r, t.width); err != nil {
		return &badFeatures{err.Error()}
	}
	err := t.views.Read(ctx, r.SlotRef, int(r.Tokens), t.width, func(feats kernels.Tensor) error {
		sum := t.dev.CheckFeatures(feats).Checksum
		if sum == r.Checksum {
			return f(feats)
		}
		if err := t.dev.Sync(); err != nil { // a device that fails says nothing of the features
			return err
		}
		return &badFeatures{fmt.Sprintf("checksum %016x, the packer wrote %016x", sum, r.Checksum)}
	})
	switch {
	case errors.Is(err, worker.ErrGone):
		return errVoid
	case errors.Is(err, mem.ErrForged):
		return &badFeatures{err.Error()}
	}
	return err
}

// giveUp settles a claimed hop whose features were of no use, for the reason that err gives.
func (t *trainer) giveUp(ctx context.Context, it item, err error) error {
	if err == errVoid {
		if uerr := t.unclaim(ctx, it.hop.Record, it.claim); uerr != nil {
			err = uerr
		}
	}
	t.flight.leave(it.hop.Record.Index)
	return t.refuse(ctx, it.hop, err)
}
