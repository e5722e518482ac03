package worker

import (
	"context"
	"errors"
	"testing"

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
