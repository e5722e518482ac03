package target

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/broker/policy"
	"penstock/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRootThatCameBack has a target with room for the oldest window alone, and that window's root in a bucket that it
// expects a later one from: another target handed it back. The other bucket always has a root that is refused.
func TestRootThatCameBack(t *testing.T) {
	const front = 14
	b := brokertest.Start(t)
	c := b.Conn("target", broker.Options{})
	ctx := brokertest.Context(t)
	brokertest.Open(t, c, 1, 8, "b64", "b128")
	pub := broker.NewPublisher(c, broker.Fwd)
	for _, r := range []schema.Batch{{Gen: 1, Window: front, Index: 0, Bucket: "b64"}, {Gen: 1, Window: front + 1, Index: 1, Bucket: "b128"}} {
		r.Run = "run"
		if err := pub.Publish(ctx, r.Bucket, schema.Root{Batch: r}, r.Bucket); err != nil {
			t.Fatal(err)
		}
	}
	h := &heads{
		after: func(bucket string, window, index uint32) (policy.Head, policy.Work) {
			return policy.Head{Bucket: bucket, Window: window, Index: index}, policy.Work{}
		},
		cost: func(bucket string, _ policy.Work) float64 { return map[string]float64{"b64": 1, "b128": 2}[bucket] },
	}
	for _, name := range []string{"b64", "b128"} {
		p, err := c.Roots(ctx, 1, name)
		if err != nil {
			t.Fatal(err)
		}
		h.buckets = append(h.buckets, &head{name: name, pull: p})
		h.advance(h.buckets[len(h.buckets)-1], front+1, 1, time.Now())
	}
	defer h.close(ctx)
	oldest := func(x policy.Head) bool { return x.Window == front }

	if _, err := h.pull(ctx, front, oldest); !errors.Is(err, broker.ErrEmpty) {
		t.Fatalf("expectations alone: got %v, want ErrEmpty", err)
	}
	var got []string
	round := func() {
		for {
			h.idle = 2 * maxIdle // all are asked
			d, err := h.pull(ctx, front, oldest)
			if errors.Is(err, broker.ErrEmpty) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, d.Record.Bucket)
			if len(got) > 8 {
				t.Fatalf("a round does not end: %v", got)
			}
			if err := d.NakDelay(ctx, 0); err != nil {
				t.Fatal(err)
			}
			if d.Record.Window == front {
				return
			}
			h.refuse(d.Record.Batch)
		}
	}
	brokertest.Until(t, "the oldest window's root", func() bool { round(); return len(got) > 0 && got[len(got)-1] == "b64" })
	if n := len(got); n > 4 {
		t.Errorf("%d roots before the oldest window's: %v", n-1, got)
	}

	// A root that this target hands back itself is expected again, whatever the bucket gave since, so that it comes
	// without a round.
	h.settled()
	h.refuse(schema.Batch{Window: front, Index: 0})
	h.advance(h.last, front+1, 2, time.Now())
	var d *broker.Delivery[schema.Root]
	brokertest.Until(t, "the root that was handed back", func() bool {
		var err error
		d, err = h.pull(ctx, front, oldest)
		return err == nil
	})
	if d.Record.Bucket != "b64" {
		t.Errorf("got a root of %s", d.Record.Bucket)
	}
}
