package cli

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/broker/slots"
	"penstock/schema"
	"penstock/stages/internal/rundir"
)

// TestRootsOfADeadInstanceComeAtOnce has an instance die with a batch in a slot; its AckWait is far away.
func TestRootsOfADeadInstanceComeAtOnce(t *testing.T) {
	ctx := brokertest.Context(t)
	conn := brokertest.Start(t).Conn("up", broker.Options{})
	brokertest.Open(t, conn, 1, 4, "b64")
	roots, err := conn.Roots(ctx, 1, "b64")
	if err != nil {
		t.Fatal(err)
	}
	root := schema.Root{Batch: schema.Batch{Run: "r", Gen: 1, Bucket: "b64"}, Documents: 1, Tokens: 9}
	if err := broker.NewPublisher(conn, broker.Fwd).Publish(ctx, "b64", root, "r/1/0"); err != nil {
		t.Fatal(err)
	}
	held := brokertest.Fetch(t, roots)

	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	keep(t, dir, "target-1", held)

	r := &running{dir: dir, conn: conn, log: slog.New(slog.DiscardHandler), notes: make(chan string, 4)}
	r.handBack(ctx, "draft-1") // has no pool
	r.handBack(ctx, "target-1")
	if again := brokertest.Fetch(t, roots); again.Record != held.Record {
		t.Fatalf("got %+v, want %+v again", again.Record, held.Record)
	}
	if note := <-r.notes; !strings.Contains(note, "target-1: its work is handed back, batches: 1") {
		t.Fatalf("note %q", note)
	}
}

// keep writes into an instance's journal that it has roots in its slots.
func keep(t *testing.T, dir *rundir.Dir, instance string, held ...*broker.Delivery[schema.Root]) {
	t.Helper()
	journal, err := slots.CreateJournal(dir.Journal(instance), instance, 7, len(held))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	pool, err := slots.New(slots.Config{Pool: instance, Incarnation: 7, Slots: len(held), Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range held {
		if _, ok := pool.Take(h.Record.Batch, h.AckSubject, func(uint32, int) bool { return true }); !ok {
			t.Fatal("no slot")
		}
	}
}

// TestRootThatDiedOnItsWay has an instance die with one root in its journal and another one that it had not written down, and
// the first one go to a successor: the second one is still missed.
func TestRootThatDiedOnItsWay(t *testing.T) {
	ctx := brokertest.Context(t)
	conn := brokertest.Start(t).Conn("up", broker.Options{})
	brokertest.Open(t, conn, 1, 4, "b64")
	roots, err := conn.Roots(ctx, 1, "b64")
	if err != nil {
		t.Fatal(err)
	}
	pub := broker.NewPublisher(conn, broker.Fwd)
	for i := range uint32(2) {
		root := schema.Root{Batch: schema.Batch{Run: "r", Gen: 1, Index: i, Bucket: "b64"}, Documents: 1, Tokens: 9}
		if err := pub.Publish(ctx, "b64", root, fmt.Sprint("r/1/", i)); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{dir: dir, conn: conn, log: slog.New(slog.DiscardHandler), notes: make(chan string, 4)}
	first := brokertest.Fetch(t, roots)
	brokertest.Fetch(t, roots) // on its way to target-1
	keep(t, dir, "target-1", first)
	r.handBack(ctx, "target-1")
	keep(t, dir, "target-2", brokertest.Fetch(t, roots))
	if lost, err := r.orphaned(ctx, 1, "b64"); err != nil || lost != 1 {
		t.Errorf("%d roots are in nobody's hands (%v), want 1", lost, err)
	}
}

// TestHopThatDiedOnItsWay has a rank die to which the broker sends a hop once more when it is put out: its successor's beginning
// brings that back.
func TestHopThatDiedOnItsWay(t *testing.T) {
	ctx := brokertest.Context(t)
	conn := brokertest.Start(t).Conn("up", broker.Options{})
	brokertest.Open(t, conn, 1, 4, "b64")
	hop := schema.Hop{Batch: schema.Batch{Run: "r", Gen: 1, Bucket: "b64"}}
	if err := broker.NewPublisher(conn, broker.Train).Publish(ctx, "b64", hop, "hop"); err != nil {
		t.Fatal(err)
	}
	hops, err := conn.Hops(ctx, broker.Train, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hops.Next(ctx); err != nil { // it went to draft-2
		t.Fatal(err)
	}
	cfg := schema.Default()
	cfg.Draft.Ranks = 2
	r := &running{conn: conn, cfg: cfg, log: slog.New(slog.DiscardHandler), vitals: newVitals(leastSilence, nil)}
	r.vitals.onceBack("draft-2", func() { r.redeliverNow("draft-2") })
	r.vitals.take(schema.StageState{Instance: "draft-2", State: "running", At: time.Now().Add(time.Second).UnixNano()})
	if again, err := hops.Next(ctx); err != nil || again.Record != hop {
		t.Errorf("the hop does not come again: %+v, %v", again, err)
	}
	if err := hops.Close(ctx); err != nil {
		t.Error(err)
	}
}
