package cli

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

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
	journal, err := slots.CreateJournal(dir.Journal("target-1"), "target-1", 7, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	pool, err := slots.New(slots.Config{Pool: "target-1", Incarnation: 7, Slots: 2, Journal: journal})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := pool.Take(held.Record.Batch, held.AckSubject, func(uint32, uint32, int) bool { return true }); !ok {
		t.Fatal("no slot")
	}

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
