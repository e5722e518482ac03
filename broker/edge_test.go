package broker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

func root(gen, window, index uint32, bucket string) schema.Root {
	return schema.Root{Batch: schema.Batch{Run: "test", Gen: gen, Epoch: 0, Window: window, Index: index, Bucket: bucket}, Documents: 3, Tokens: 300}
}

func id(r schema.Root) string { return fmt.Sprintf("%s/%d/%d", r.Run, r.Gen, r.Index) }

func publish(t testing.TB, c *broker.Conn, r schema.Root) {
	t.Helper()
	if err := broker.NewPublisher(c, broker.Fwd).Publish(brokertest.Context(t), r.Bucket, r, id(r)); err != nil {
		t.Fatalf("publish: %v", err)
	}
}

func roots(t testing.TB, c *broker.Conn, gen uint32, bucket string) *broker.Puller[schema.Root] {
	t.Helper()
	p, err := c.Roots(brokertest.Context(t), gen, bucket)
	if err != nil {
		t.Fatalf("roots: %v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(brokertest.Context(t)); err != nil && !errors.Is(err, broker.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

func TestCreditBoundsOpenRoots(t *testing.T) {
	b := brokertest.Start(t)
	c := b.Conn("test", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 2, "b64")
	for i := range uint32(4) {
		publish(t, c, root(1, 0, i, "b64"))
	}
	p := roots(t, c, 1, "b64")
	var held []*broker.Delivery[schema.Root]
	fetch := func() error {
		d, err := p.FetchNoWait(ctx)
		if err == nil {
			held = append(held, d)
		}
		return err
	}
	held = append(held, brokertest.Fetch(t, p), brokertest.Fetch(t, p))
	start := time.Now()
	if err := fetch(); !errors.Is(err, broker.ErrEmpty) {
		t.Fatalf("credit used up: got %v, want ErrEmpty", err)
	}
	t.Log("refused in", time.Since(start))
	credit, err := c.Credit(ctx, 1, "b64")
	if err != nil || credit.Open != 2 || credit.Limit != 2 || credit.Queued != 2 || credit.Waiting != 0 {
		t.Fatalf("credit %+v, %v", credit, err)
	}
	if err := c.SetCredit(ctx, 1, "b64", 3); err != nil {
		t.Fatal(err)
	}
	if err := fetch(); err != nil {
		t.Fatalf("after the limit rose: %v", err)
	}
	if err := fetch(); !errors.Is(err, broker.ErrEmpty) {
		t.Fatalf("raised credit used up: got %v, want ErrEmpty", err)
	}
	if err := held[0].Ack(ctx); err != nil {
		t.Fatal(err)
	}
	if err := fetch(); err != nil {
		t.Fatalf("after an acknowledgement: %v", err)
	}
	for i, d := range held {
		if d.Record.Index != uint32(i) {
			t.Errorf("delivery %d is batch %d", i, d.Record.Index)
		}
	}
}

func TestFullSubject(t *testing.T) {
	b := brokertest.Start(t)
	c := b.Conn("test", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 1, "b64", "b128") // the ceiling is 2, so a subject takes 4
	for i := range uint32(4) {
		publish(t, c, root(1, 0, i, "b64"))
	}
	pub := broker.NewPublisher(c, broker.Fwd)
	fifth := root(1, 0, 4, "b64")
	if err := pub.Publish(ctx, "b64", fifth, id(fifth)); !errors.Is(err, broker.ErrFull) {
		t.Fatalf("fifth root: got %v, want ErrFull", err)
	}
	publish(t, c, root(1, 0, 5, "b128")) // the other bucket is free

	done := make(chan error, 1)
	go func() { done <- pub.PublishWhenFree(ctx, "b64", fifth, id(fifth)) }()
	p := roots(t, c, 1, "b64")
	if err := brokertest.Fetch(t, p).Ack(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatalf("publish when free: %v", err)
	}
}

func TestSourceLosesNothingWhenCallsEnd(t *testing.T) {
	b := brokertest.Start(t)
	c := b.Conn("test", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 1, "b64")
	src, err := c.Hops(ctx, broker.Pack, 1)
	if err != nil {
		t.Fatal(err)
	}
	pub := broker.NewPublisher(c, broker.Pack)
	const n = 200
	for i := range uint32(n) {
		short, cancel := context.WithTimeout(ctx, time.Duration(i%5)*200*time.Microsecond)
		hop := schema.Hop{Batch: root(1, 0, i, "b64").Batch}
		sent := make(chan error, 1)
		go func() { sent <- pub.Publish(ctx, "b64", hop, "") }()
		d, err := src.Next(short)
		cancel()
		if err != nil {
			d, err = src.Next(ctx)
		}
		if err != nil || <-sent != nil {
			t.Fatal(err)
		}
		if d.Record.Index != i || d.Redelivered {
			t.Fatalf("got %d (again: %v), want %d", d.Record.Index, d.Redelivered, i)
		}
		if err := d.Ack(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := src.Close(ctx); err != nil {
		t.Fatal(err)
	}
	brokertest.Until(t, "the pull to leave the server", func() bool {
		credit, err := c.HopCredit(ctx, broker.Pack, 1)
		return err == nil && credit.Open == 0 && credit.Queued == 0
	})
}

func TestTail(t *testing.T) {
	b := brokertest.Start(t)
	c := b.Conn("test", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 4, "b64", "b128")
	if _, ok, err := broker.Tail(ctx, c, broker.Fwd, "b64"); ok || err != nil {
		t.Fatalf("empty subject: %v, %v", ok, err)
	}
	publish(t, c, root(1, 0, 0, "b64"))
	publish(t, c, root(1, 0, 2, "b64"))
	publish(t, c, root(1, 0, 3, "b128"))
	brokertest.Expect(t, roots(t, c, 1, "b64"), func(r schema.Root) uint32 { return r.Index }, 0)
	if r, ok, err := broker.Tail(ctx, c, broker.Fwd, "b64"); !ok || err != nil || r.Index != 2 {
		t.Fatalf("tail %+v, %v, %v; want batch 2", r, ok, err)
	}
}
