package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

func TestGenerationVoidsOldAcknowledgements(t *testing.T) {
	b := brokertest.Start(t)
	c := b.Conn("test", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 3, "b64")
	for i := range uint32(3) {
		publish(t, c, root(1, 0, i, "b64"))
	}
	old := roots(t, c, 1, "b64")
	var held []*broker.Delivery[schema.Root]
	for range 3 {
		held = append(held, brokertest.Fetch(t, old))
	}
	src, err := c.Hops(ctx, broker.Train, 1)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() { _, err := src.Next(ctx); waiting <- err }()
	brokertest.Until(t, "a parked pull", func() bool {
		a, err := c.HopCredit(ctx, broker.Train, 1)
		return err == nil && a.Waiting == 1
	})

	brokertest.Open(t, c, 2, 3, "b64")
	if err := <-waiting; !errors.Is(err, broker.ErrGone) {
		t.Errorf("a source of the old generation: got %v, want ErrGone", err)
	}
	for i := range uint32(3) {
		publish(t, c, root(2, 0, i, "b64"))
	}
	p := roots(t, c, 2, "b64")
	now := brokertest.Fetch(t, p)
	if now.Record.Gen != 2 || now.Record.Index != 0 {
		t.Fatalf("first root of the new generation: %+v", now.Record)
	}
	for _, d := range held {
		if err := d.Ack(ctx); !errors.Is(err, broker.ErrGone) {
			t.Errorf("old acknowledgement: got %v, want ErrGone", err)
		}
		if err := d.NakDelay(ctx, 0); !errors.Is(err, broker.ErrGone) {
			t.Errorf("old hand-back: got %v, want ErrGone", err)
		}
	}
	if a, err := c.Credit(ctx, 2, "b64"); err != nil || a.Open != 1 || a.Queued != 2 {
		t.Fatalf("after old acknowledgements: %+v, %v", a, err)
	}
	if _, err := old.FetchNoWait(ctx); !errors.Is(err, broker.ErrGone) {
		t.Errorf("pull of the old generation: got %v, want ErrGone", err)
	}
	if _, err := c.Roots(ctx, 1, "b64"); !errors.Is(err, broker.ErrGone) {
		t.Errorf("open the old generation: got %v, want ErrGone", err)
	}
	if err := c.SetCredit(ctx, 1, "b64", 2); !errors.Is(err, broker.ErrGone) {
		t.Errorf("credit of the old generation: got %v, want ErrGone", err)
	}
}

func TestOpenGenerationAgain(t *testing.T) {
	b := brokertest.Start(t)
	c := b.Conn("test", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 2, "b64", "b128")
	publish(t, c, root(1, 0, 0, "b128"))
	brokertest.Open(t, c, 1, 2, "b64", "b128") // does nothing
	if d := brokertest.Fetch(t, roots(t, c, 1, "b128")); d.Record.Index != 0 {
		t.Errorf("root %+v", d.Record)
	}

	other := broker.Generation{
		Gen: schema.Gen{Run: "test", Gen: 1, Start: 5, By: "somebody else"}, AckWait: time.Second,
		Buckets: []broker.BucketCredit{{Bucket: "b64", Credit: 1, Ceiling: 1}},
	}
	if err := c.OpenGeneration(ctx, other); !errors.Is(err, broker.ErrLost) {
		t.Errorf("another generation 1: got %v, want ErrLost", err)
	}
	brokertest.Open(t, c, 3, 2, "b64")
	other.Gen.Gen = 2
	if err := c.OpenGeneration(ctx, other); !errors.Is(err, broker.ErrStale) {
		t.Errorf("an earlier generation: got %v, want ErrStale", err)
	}
	if open, err := c.GenerationOpen(ctx, 3); err != nil || !open {
		t.Errorf("generation 3 is open: %v, %v", open, err)
	}
}

// TestOpenGenerationAfterCrash stops the opening after each of its requests and opens again.
func TestOpenGenerationAfterCrash(t *testing.T) {
	b := brokertest.Start(t)
	c := b.Conn("test", broker.Options{})
	for gen, cut := uint32(1), 0; ; gen, cut = gen+1, cut+1 {
		done := crashOpening(t, b, gen, cut)
		if !done {
			if open, err := c.GenerationOpen(brokertest.Context(t), gen); err != nil || open {
				t.Fatalf("cut after %d requests: open %v, %v", cut, open, err)
			}
		}
		brokertest.Open(t, c, gen, 2, "b64", "b128")
		publish(t, c, root(gen, 0, 0, "b64"))
		publish(t, c, root(gen, 0, 1, "b128"))
		for _, bucket := range []string{"b64", "b128"} {
			if d := brokertest.Fetch(t, roots(t, c, gen, bucket)); d.Record.Gen != gen {
				t.Fatalf("generation %d hands out %+v", gen, d.Record)
			}
		}
		if done {
			t.Logf("the opening is %d requests", cut)
			if cut < 10 {
				t.Errorf("only %d requests were cut", cut)
			}
			return
		}
	}
}

// crashOpening opens gen through a connection that ends after cut requests, and reports whether that was enough.
func crashOpening(t *testing.T, b *brokertest.Broker, gen uint32, cut int) bool {
	t.Helper()
	p := b.Proxy()
	c := p.Broker(t).Conn("doomed", broker.Options{OnError: func(error) {}})
	ctx, cancel := context.WithCancel(brokertest.Context(t))
	defer cancel()
	done := make(chan error, 1)
	p.CutAfter(cut)
	go func() { done <- c.OpenGeneration(ctx, brokertest.Generation(gen, 2, "b64", "b128")) }()
	select {
	case <-p.Cut:
		cancel()
		if <-done == nil {
			t.Fatalf("cut after %d requests, and still opened", cut)
		}
		return false
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
}
