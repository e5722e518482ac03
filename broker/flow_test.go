package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

// TestPipeline runs every kind of message once per batch, as the stages do, on each kind of server.
func TestPipeline(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { pipeline(t, brokertest.Start(t), 200) })
	t.Run("own process", func(t *testing.T) { pipeline(t, &brokertest.StartProcess(t, "default").Broker, 200) })
	t.Run("external nats-server", func(t *testing.T) { pipeline(t, &brokertest.StartExternal(t).Broker, 200) })
}

func pipeline(t testing.TB, b *brokertest.Broker, n uint32) {
	c := b.Conn("control", broker.Options{})
	ctx := brokertest.Context(t)
	if err := c.EnsureTopology(ctx); err != nil {
		t.Fatal(err)
	}
	brokertest.Open(t, c, 1, 4, "b64")
	ctx, stop := context.WithCancelCause(ctx)
	finished := errors.New("finished")

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return builder(ctx, b.Conn("batch", broker.Options{}), n) })
	g.Go(func() error { return target(ctx, b.Conn("target", broker.Options{})) })
	g.Go(func() error { return pack(ctx, b.Conn("pack", broker.Options{})) })
	g.Go(func() error {
		err := draft(ctx, b.Conn("draft", broker.Options{}), n)
		if err == nil {
			stop(finished)
		}
		return err
	})
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, finished) {
		t.Fatal(err)
	}
	entries, _, err := c.Ledger().State(brokertest.Context(t), broker.LedgerWindow(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	added := 0
	for _, e := range entries {
		if _, ok := e.Record.(schema.Added); ok {
			added++
		}
	}
	if added != int(n) {
		t.Errorf("%d batches added, want %d", added, n)
	}
	brokertest.WaitCredit(t, c, 1, "b64", func(a broker.Credit) bool { return a.Open == 0 && a.Queued == 0 })
}

func builder(ctx context.Context, c *broker.Conn, n uint32) error {
	pub := broker.NewPublisher(c, broker.Fwd)
	for i := range n {
		r := root(1, 0, i, "b64")
		if err := pub.PublishWhenFree(ctx, r.Bucket, r, id(r)); err != nil {
			return err
		}
	}
	return nil
}

func target(ctx context.Context, c *broker.Conn) error {
	p, err := c.Roots(ctx, 1, "b64")
	if err != nil {
		return err
	}
	pub := broker.NewPublisher(c, broker.Pack)
	for n := uint64(1); ; n++ {
		d, err := p.FetchNoWait(ctx)
		if errors.Is(err, broker.ErrEmpty) {
			select {
			case <-time.After(time.Millisecond):
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err != nil {
			return err
		}
		hop := schema.Hop{Batch: d.Record.Batch, SlotRef: schema.SlotRef{Pool: "t0", Incarnation: 1, Generation: n}, Root: d.AckSubject}
		if err := pub.Publish(ctx, hop.Bucket, hop, fmt.Sprintf("t0/%d", n)); err != nil {
			return err
		}
	}
}

func pack(ctx context.Context, c *broker.Conn) error {
	src, err := c.Hops(ctx, broker.Pack, 1)
	if err != nil {
		return err
	}
	pub, rel := broker.NewPublisher(c, broker.Train), broker.NewPublisher(c, broker.Rel)
	for n := uint64(1); ; n++ {
		d, err := src.Next(ctx)
		if err != nil {
			return err
		}
		hop := d.Record
		freed := hop.SlotRef
		hop.SlotRef = schema.SlotRef{Pool: "p0", Incarnation: 2, Generation: n}
		if err := pub.Publish(ctx, hop.Bucket, hop, fmt.Sprintf("p0/%d", n)); err != nil {
			return err
		}
		if err := rel.Publish(ctx, freed.Pool, schema.Release{SlotRef: freed, By: "p0"}, fmt.Sprintf("rel/%d/%d", freed.Incarnation, freed.Generation)); err != nil {
			return err
		}
		if err := d.Ack(ctx); err != nil {
			return err
		}
	}
}

func draft(ctx context.Context, c *broker.Conn, n uint32) error {
	src, err := c.Hops(ctx, broker.Train, 1)
	if err != nil {
		return err
	}
	l := c.Ledger()
	for range n {
		d, err := src.Next(ctx)
		if err != nil {
			return err
		}
		seq, err := l.Claim(ctx, schema.Claim{Batch: d.Record.Batch, Rank: "r0", Incarnation: 3}, 0)
		if err != nil {
			return err
		}
		if _, err := l.Added(ctx, schema.Added{Batch: d.Record.Batch, Rank: "r0", Incarnation: 3}, seq); err != nil {
			return err
		}
		if err := d.Ack(ctx); err != nil {
			return err
		}
		if err := c.AckRoot(ctx, d.Record.Root); err != nil {
			return err
		}
	}
	return nil
}
