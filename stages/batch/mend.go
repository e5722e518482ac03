package batch

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/plan"
)

// mendEvery is how often the builder holds the stored roots against the plan and the ledger.
const mendEvery = time.Second

// mend publishes again what has gone from the stream before its time, until ctx ends: a root is there until its window
// commits or its batch is dead. One that somebody acknowledged earlier would not come back after the death of whoever
// works on it, and its window would stay open for ever. behind is the plan index behind the last root published, by bucket.
func (b *builder) mend(ctx context.Context, behind map[string]*atomic.Uint32) {
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := b.mendAll(ctx, behind); err != nil && ctx.Err() == nil {
			b.w.Log.Warn("roots cannot be looked after", "err", err)
		}
	}
}

func (b *builder) mendAll(ctx context.Context, behind map[string]*atomic.Uint32) error {
	depths, err := broker.Depths(ctx, b.w.Conn, broker.Fwd)
	if err != nil {
		return err
	}
	for bucket, end := range behind {
		if uint64(len(b.open(bucket, end.Load(), policy.Dead))) <= depths[bucket] {
			continue
		}
		if err := b.mendBucket(ctx, bucket, end.Load()); err != nil {
			return err
		}
	}
	return nil
}

// mendBucket publishes again the roots of a bucket that are not stored while somebody must still work on them.
func (b *builder) mendBucket(ctx context.Context, bucket string, end uint32) error {
	stored, err := broker.Stored(ctx, b.w.Conn, broker.Fwd, bucket)
	if err != nil {
		return err
	}
	there := map[uint32]bool{}
	for _, r := range stored {
		there[r.Index] = there[r.Index] || r.Gen == b.gen && b.planned(r)
	}
	for _, p := range b.open(bucket, end, policy.Added) {
		r := b.root(p)
		if there[r.Index] {
			continue
		}
		if over, err := b.over(ctx, r.Batch); err != nil {
			return err
		} else if over {
			continue
		}
		b.w.Log.Warn("a root was acknowledged before its time: it is published again", "batch", r.Index, "window", r.Window, "bucket", bucket)
		if err := b.put(ctx, bucket, r, fmt.Sprintf("%s/again-%d", rootID(r.Batch), b.w.Now())); err != nil {
			return fmt.Errorf("root of batch %d: %w", p.Index, err)
		}
	}
	return nil
}

// over asks the ledger whether nobody has to work on a batch any more.
func (b *builder) over(ctx context.Context, r schema.Batch) (over bool, err error) {
	err = b.w.Ledger.Study(ctx, b.w.Conn, broker.LedgerControl(r.Gen, r.Window), broker.LedgerBatch(r.Gen, r.Window, r.Index))
	b.w.Ledger.View(func(l *policy.Lineage) { over = l.Settled(r) })
	return over, err
}

// open returns the bucket's batches of open windows, before plan index end, that have not come to a state yet.
func (b *builder) open(bucket string, end uint32, state policy.State) (batches []plan.BatchPlan) {
	b.w.Ledger.View(func(l *policy.Lineage) {
		if l.Gen != b.gen {
			return
		}
		for w := l.Next; policy.Publishable(w, l.Next, uint32(b.w.Config.Window.Lookahead)) && int(w) < b.plan.Windows(); w++ {
			for _, p := range b.plan.Window(int(w)) {
				if p.Bucket == bucket && uint32(p.Index) < end && l.Of(w, uint32(p.Index)).State < state {
					batches = append(batches, p)
				}
			}
		}
	})
	return batches
}
