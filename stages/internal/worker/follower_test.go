package worker

import (
	"context"
	"errors"
	"testing"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/broker/policy"
	"penstock/schema"
)

func TestGenerationOfAnotherRunIsNotOurs(t *testing.T) {
	f := NewFollower()
	f.read(broker.Entry{Seq: 1, Record: schema.Gen{Run: "before", Gen: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if gen, err := f.generation(ctx, "ours", 0); !errors.Is(err, context.Canceled) {
		t.Fatalf("generation %d of another run is taken for ours: %v", gen, err)
	}
	f.read(broker.Entry{Seq: 2, Record: schema.Gen{Run: "ours", Gen: 2}})
	if gen, err := f.generation(t.Context(), "ours", 0); err != nil || gen != 2 {
		t.Fatalf("generation %d, %v; want 2", gen, err)
	}
}

// TestFrontFollowerLooks has a follower of the front learn what became of a batch only when it is asked to look.
func TestFrontFollowerLooks(t *testing.T) {
	b := brokertest.Start(t)
	ctx := brokertest.Context(t)
	conn := b.Conn("test", broker.Options{})
	f := NewFollower()
	f.front = true
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { ended <- f.run(running, conn) }()
	defer func() { stop(); <-ended }()

	dead := schema.Batch{Run: "test", Gen: 1, Window: 0, Index: 3, Bucket: "b64"}
	l := conn.Ledger()
	if _, err := l.Append(ctx, broker.LedgerBatch(1, 0, 3), schema.Suspect{Batch: dead, Reason: "zero", From: "target-1"}, 0); err != nil {
		t.Fatal(err)
	}
	last, err := l.Last(ctx, broker.LedgerBatch(1, 0, 3))
	if err == nil {
		_, err = l.Append(ctx, broker.LedgerBatch(1, 0, 3), schema.Dead{Batch: dead, Reason: "zero"}, last.Seq)
	}
	if err == nil {
		_, err = l.Gen(ctx, schema.Gen{Run: "test", Gen: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	state := func() (s policy.State) {
		f.View(func(l *policy.Lineage) { s = l.Of(0, 3).State })
		return s
	}
	if err := f.Wait(ctx, func(l *policy.Lineage) bool { return l.Gen == 1 }); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != policy.Planned {
		t.Fatalf("before looking: state %v", got)
	}
	if err := f.Look(ctx, conn, dead); err != nil || state() != policy.Dead {
		t.Fatalf("after looking: state %v, %v", state(), err)
	}
}

// TestFollowerLooks has a follower of everything that is behind: what the ledger says of a batch is there after a look, and what it said
// before counts.
func TestFollowerLooks(t *testing.T) {
	b := brokertest.Start(t)
	ctx := brokertest.Context(t)
	conn := b.Conn("test", broker.Options{})
	batch := schema.Batch{Run: "test", Gen: 1, Window: 0, Index: 3, Bucket: "b64"}
	l, on := conn.Ledger(), broker.LedgerBatch(1, 0, 3)
	_, err := l.Gen(ctx, schema.Gen{Run: "test", Gen: 1})
	var seq uint64
	for range 2 {
		if err == nil {
			seq, err = l.Append(ctx, on, schema.Suspect{Batch: batch, Reason: "zero", From: "target-1"}, seq)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	f := NewFollower()
	looked := make(chan error, 1)
	go func() { looked <- f.Look(ctx, conn, batch) }()
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { ended <- f.run(running, conn) }()
	defer func() { stop(); <-ended }()
	if err := <-looked; err != nil {
		t.Fatal(err)
	}
	f.View(func(l *policy.Lineage) {
		if s := l.Of(0, 3); s.Suspects != 2 {
			t.Errorf("after looking: %+v", s)
		}
	})
}
