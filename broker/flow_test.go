package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

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
	if err := c.EnsureTopology(brokertest.Context(t)); err != nil {
		t.Fatal(err)
	}
	brokertest.Open(t, c, 1, 4, "b64", "b128")
	if err := runStages(t, b, 1, n); err != nil {
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
	for _, bucket := range buckets {
		brokertest.WaitCredit(t, c, 1, bucket, func(a broker.Credit) bool { return a.Open == 0 && a.Queued == 0 })
	}
}

var buckets = []string{"b64", "b128"}

// runStages sends n batches through a builder, two targets, a packer and a drafter that do no work.
func runStages(t testing.TB, b *brokertest.Broker, gen, n uint32) error {
	ctx, stop := context.WithCancelCause(brokertest.Context(t))
	finished := errors.New("finished")
	g, ctx := errgroup.WithContext(ctx)
	for i, bucket := range buckets {
		c := b.Conn("batch-"+bucket, broker.Options{})
		g.Go(func() error { return builder(ctx, c, gen, uint32(i), n, bucket) })
	}
	for i := range 2 {
		c := b.Conn(fmt.Sprintf("target%d", i), broker.Options{})
		g.Go(func() error { return target(ctx, c, gen) })
	}
	pc, dc := b.Conn("pack", broker.Options{}), b.Conn("draft", broker.Options{})
	g.Go(func() error { return pack(ctx, pc, gen) })
	g.Go(func() error {
		err := draft(ctx, dc, gen, n)
		if err == nil {
			stop(finished)
		}
		return err
	})
	if err := g.Wait(); !errors.Is(err, context.Canceled) && !errors.Is(err, finished) {
		return err
	}
	return nil
}

// builder publishes every second batch of n, from first on.
func builder(ctx context.Context, c *broker.Conn, gen, first, n uint32, bucket string) error {
	pub := broker.NewPublisher(c, broker.Fwd)
	for i := first; i < n; i += uint32(len(buckets)) {
		r := root(gen, 0, i, bucket)
		if err := pub.PublishWhenFree(ctx, bucket, r, id(r)); err != nil {
			return err
		}
	}
	return nil
}

func target(ctx context.Context, c *broker.Conn, gen uint32) error {
	var pulls []*broker.Puller[schema.Root]
	for _, bucket := range buckets {
		p, err := c.Roots(ctx, gen, bucket)
		if err != nil {
			return err
		}
		pulls = append(pulls, p)
	}
	pub := broker.NewPublisher(c, broker.Pack)
	for {
		for _, p := range pulls {
			d, err := p.FetchNoWait(ctx)
			if errors.Is(err, broker.ErrEmpty) {
				continue
			}
			if err != nil {
				return err
			}
			use := schema.SlotRef{Pool: "t0", Incarnation: 1, Generation: d.Seq}
			hop := schema.Hop{Batch: d.Record.Batch, SlotRef: use, Root: d.AckSubject}
			if err := pub.Publish(ctx, hop.Bucket, hop, fmt.Sprintf("t0/%d/%d", gen, d.Seq)); err != nil {
				return err
			}
		}
	}
}

func pack(ctx context.Context, c *broker.Conn, gen uint32) error {
	src, err := c.Hops(ctx, broker.Pack, gen)
	if err != nil {
		return err
	}
	pub, rel := broker.NewPublisher(c, broker.Train), broker.NewPublisher(c, broker.Rel)
	for {
		d, err := src.Next(ctx)
		if err != nil {
			return err
		}
		hop, freed := d.Record, d.Record.SlotRef
		hop.SlotRef = schema.SlotRef{Pool: "p0", Incarnation: 2, Generation: d.Seq}
		if err := pub.Publish(ctx, hop.Bucket, hop, fmt.Sprintf("p0/%d/%d", gen, d.Seq)); err != nil {
			return err
		}
		if err := release(ctx, rel, freed); err != nil {
			return err
		}
		if err := d.Ack(ctx); err != nil {
			return err
		}
	}
}

func release(ctx context.Context, rel *broker.Publisher[schema.Release], ref schema.SlotRef) error {
	return rel.Publish(ctx, ref.Pool, schema.Release{SlotRef: ref}, fmt.Sprintf("rel/%s/%d/%d/%d", ref.Pool, ref.Incarnation, ref.Slot, ref.Generation))
}

func draft(ctx context.Context, c *broker.Conn, gen, n uint32) error {
	src, err := c.Hops(ctx, broker.Train, gen)
	if err != nil {
		return err
	}
	rel, l := broker.NewPublisher(c, broker.Rel), c.Ledger()
	for range n {
		d, err := src.Next(ctx)
		if err != nil {
			return err
		}
		b := d.Record.Batch
		seq, err := l.Claim(ctx, schema.Claim{Batch: b, Rank: "r0", Incarnation: 3}, 0)
		if err == nil {
			_, err = l.Added(ctx, schema.Added{Batch: b, Rank: "r0", Incarnation: 3}, seq)
		}
		if err == nil {
			err = release(ctx, rel, d.Record.SlotRef)
		}
		if err == nil {
			err = d.Ack(ctx)
		}
		if err == nil {
			err = c.AckRoot(ctx, d.Record.Root)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
