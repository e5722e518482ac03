package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"penstock/broker"
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

func TestWaitFront(t *testing.T) {
	f := NewFollower()
	f.Apply(broker.Entry{Seq: 1, Record: schema.Gen{Gen: 1}})
	if moved, err := f.WaitFront(t.Context(), 1, 0, time.Millisecond); moved || err != nil {
		t.Errorf("a front that stands: %v, %v", moved, err)
	}
	got := make(chan bool, 1)
	go func() {
		moved, err := f.WaitFront(t.Context(), 1, 0, time.Hour)
		got <- moved && err == nil
	}()
	f.Apply(broker.Entry{Seq: 2, Record: schema.Claim{Batch: schema.Batch{Gen: 1}}})
	f.Apply(broker.Entry{Seq: 3, Record: schema.Commit{Gen: 1, Window: 0}})
	if !<-got {
		t.Error("the front moved and nobody was told")
	}
}
