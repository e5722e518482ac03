package batch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/account"
	"penstock/stages/internal/telemetry"
)

// publish runs one synchronous publisher a bucket, in plan order, until the run is complete.
func (b *builder) publish(ctx context.Context) error {
	if err := b.suffice(ctx); err != nil {
		return err
	}
	b.w.Status.Running()
	b.w.Book.Enter(account.Window)
	g, publishing := errgroup.WithContext(ctx)
	var published []*atomic.Uint32
	behind := map[string]*atomic.Uint32{}
	for _, bucket := range b.plan.Buckets() {
		n, end := new(atomic.Uint32), new(atomic.Uint32)
		published, behind[bucket.Name] = append(published, n), end
		g.Go(func() error { return b.publishBucket(publishing, bucket.Name, n, end) })
	}
	balancing, stop := context.WithCancel(ctx)
	var mending sync.WaitGroup
	mending.Go(func() { b.mend(balancing, behind) })
	done, over := make(chan error, 1), make(chan struct{})
	go func() { done <- b.balance(balancing, published, over) }()
	err := g.Wait()
	if err == nil {
		err = b.w.Ledger.Wait(ctx, func(l *policy.Lineage) bool { return int(l.Next) >= b.plan.Windows() })
	}
	if err != nil {
		stop()
	}
	close(over)
	herr := <-done
	stop()
	mending.Wait()
	if err == nil {
		err = herr
	}
	return err
}

// publishBucket publishes what is missing of one bucket's roots, each when its window comes within the look-ahead. It counts
// them, and keeps the plan index behind the last.
func (b *builder) publishBucket(ctx context.Context, bucket string, published, behind *atomic.Uint32) error {
	first, err := b.resume(ctx, bucket)
	if err != nil {
		return err
	}
	behind.Store(uint32(first))
	_, next := b.w.Ledger.Front()
	for w := int(next); w < b.plan.Windows(); w++ {
		err := b.w.Ledger.Wait(ctx, func(l *policy.Lineage) bool {
			return policy.Publishable(uint32(w), l.Next, uint32(b.w.Config.Window.Lookahead))
		})
		if err != nil {
			return err
		}
		for _, p := range b.plan.Window(w) {
			if p.Bucket != bucket || p.Index < first {
				continue
			}
			r := b.root(p)
			of := telemetry.Of{Batch: r.Batch, Tokens: r.Tokens, Subject: broker.Fwd.Subject(bucket), Operation: telemetry.Sent}
			traced, build := b.w.Trace.Start(ctx, telemetry.Build, time.Now(), of)
			err := b.put(traced, bucket, r, rootID(r.Batch))
			build.End(err)
			if err != nil {
				return fmt.Errorf("root of batch %d: %w", p.Index, err)
			}
			published.Add(1)
			behind.Store(r.Index + 1)
			b.w.Status.Batches.Add(1)
			b.w.Status.Tokens.Add(uint64(p.Tokens))
		}
	}
	return nil
}

// resume returns the plan index from which on the bucket's roots are missing: behind the last that is still stored.
// With none stored, all that were published have been acknowledged, so their windows have committed.
func (b *builder) resume(ctx context.Context, bucket string) (int, error) {
	tail, ok, err := broker.Tail(ctx, b.w.Conn, broker.Fwd, bucket)
	if err != nil || !ok || tail.Gen != b.gen || !b.planned(tail) {
		return 0, err
	}
	return int(tail.Index) + 1, nil
}

// planned reports whether a stored root is one of the plan's. Behind one that is not, publishing begins at the front:
// what is stored already is known to the stream by its id.
func (b *builder) planned(r schema.Root) bool {
	p := b.plan.Batch(int(r.Index))
	return len(p.Docs) > 0 && p.Window == int(r.Window) && p.Bucket == r.Bucket
}

// rootID names a root for the stream's memory of duplicates; a new generation publishes the same batch again.
func rootID(b schema.Batch) string {
	return fmt.Sprintf("%s/%d/%d/%d", b.Run, b.Gen, b.Epoch, b.Index)
}

func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
