// Package brokertest runs brokers for tests: an embedded server per test, or a separate process that can be killed
// and started again on its store. Nothing here sleeps for a fixed time: it waits for a state.
package brokertest

import (
	"context"
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

// Open opens generation gen with the given buckets, each with that credit and twice as much as its ceiling.
func Open(t testing.TB, c *broker.Conn, gen uint32, credit int, buckets ...string) {
	t.Helper()
	g := broker.Generation{Gen: schema.Gen{Run: "test", Gen: gen, By: "brokertest"}, AckWait: 2 * time.Second}
	for _, b := range buckets {
		g.Buckets = append(g.Buckets, broker.BucketCredit{Bucket: b, Credit: credit, Ceiling: 2 * credit})
	}
	if err := c.OpenGeneration(Context(t), g); err != nil {
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
