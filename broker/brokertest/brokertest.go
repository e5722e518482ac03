// Package brokertest runs brokers for tests: an embedded server per test, or a separate process that can be killed
// and started again on its store. Nothing here sleeps for a fixed time: it waits for a state.
package brokertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"penstock/broker"
	"penstock/schema"
)

// Patience bounds every wait of this package; a test that needs longer hangs.
const Patience = 30 * time.Second

// Broker is a server that a test talks to.
type Broker struct {
	URL string
	t   testing.TB
}

// Start runs an embedded server on a store of its own until the test ends.
func Start(t testing.TB) *Broker {
	t.Helper()
	s, err := broker.StartServer(Context(t), broker.ServerConfig{Host: "127.0.0.1", Store: t.TempDir()})
	if err != nil {
		t.Fatalf("start broker: %v", err)
	}
	t.Cleanup(s.Close)
	return &Broker{URL: s.URL(), t: t}
}

// At is a server that runs elsewhere.
func At(t testing.TB, url string) *Broker { return &Broker{URL: url, t: t} }

// Context ends with the test, or after Patience.
func Context(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Conn dials the broker until the test ends.
func (b *Broker) Conn(name string, opts broker.Options) *broker.Conn {
	b.t.Helper()
	if opts.OnError == nil {
		opts.OnError = func(err error) { b.t.Logf("%s: %v", name, err) }
	}
	c, err := broker.Dial(Context(b.t), b.URL, name, opts)
	if err != nil {
		b.t.Fatalf("dial: %v", err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// Generation describes generation gen with the given buckets, each with that credit and twice as much as its ceiling.
func Generation(gen uint32, credit int, buckets ...string) broker.Generation {
	g := broker.Generation{Gen: schema.Gen{Run: "test", Gen: gen, By: "brokertest"}, AckWait: 2 * time.Second}
	for _, b := range buckets {
		g.Buckets = append(g.Buckets, broker.BucketCredit{Bucket: b, Credit: credit, Ceiling: 2 * credit})
	}
	return g
}

// Open opens what Generation describes.
func Open(t testing.TB, c *broker.Conn, gen uint32, credit int, buckets ...string) {
	t.Helper()
	if err := c.OpenGeneration(Context(t), Generation(gen, credit, buckets...)); err != nil {
		t.Fatalf("open generation %d: %v", gen, err)
	}
}

// Until waits until ok reports true, asking often.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(Patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", Patience, what)
		}
	}
}

// Fetch pulls one record. What was published a moment ago may take the server another moment to hand out.
func Fetch[T schema.Record](t testing.TB, p *broker.Puller[T]) *broker.Delivery[T] {
	t.Helper()
	var d *broker.Delivery[T]
	Until(t, "a record to pull", func() bool {
		var err error
		d, err = p.FetchNoWait(Context(t))
		if err != nil && !errors.Is(err, broker.ErrEmpty) {
			t.Fatalf("fetch: %v", err)
		}
		return err == nil
	})
	return d
}

// Expect fetches one record for each of want, in any order, as key sees them, and acknowledges them.
func Expect[T schema.Record, K comparable](t testing.TB, p *broker.Puller[T], key func(T) K, want ...K) {
	t.Helper()
	missing := map[K]int{}
	for _, k := range want {
		missing[k]++
	}
	for range want {
		d := Fetch(t, p)
		k := key(d.Record)
		if missing[k]--; missing[k] < 0 {
			t.Fatalf("got %v, which is not or no longer expected; want %v", k, want)
		}
		if err := d.Ack(Context(t)); err != nil {
			t.Fatalf("acknowledge %v: %v", k, err)
		}
	}
}

// ExpectOnly is Expect, after which nothing may be stored or open in the bucket.
func ExpectOnly[K comparable](t testing.TB, c *broker.Conn, gen uint32, bucket string, p *broker.Puller[schema.Root], key func(schema.Root) K, want ...K) {
	t.Helper()
	Expect(t, p, key, want...)
	WaitCredit(t, c, gen, bucket, func(a broker.Credit) bool { return a.Open == 0 && a.Queued == 0 })
	if d, err := p.FetchNoWait(Context(t)); !errors.Is(err, broker.ErrEmpty) {
		t.Fatalf("one more record: %+v, %v", d, err)
	}
}

// WaitCredit waits until the bucket's own figures satisfy ok.
func WaitCredit(t testing.TB, c *broker.Conn, gen uint32, bucket string, ok func(broker.Credit) bool) {
	t.Helper()
	var last broker.Credit
	Until(t, "the credit of "+bucket, func() bool {
		var err error
		if last, err = c.Credit(Context(t), gen, bucket); err != nil {
			t.Fatalf("credit of %s: %v", bucket, err)
		}
		return ok(last)
	})
}
