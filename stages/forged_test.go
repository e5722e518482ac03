package stages_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/worker"
	"penstock/stages/stagestest"
)

const (
	forgedBatches = 3   // how many batches are forged about
	forgedWidth   = 384 // of a true row
)

// forger publishes what no stage would, on every edge.
type forger struct {
	conn *broker.Conn
	run  *worker.RunPlan
	name string
	sent int
}

func (f *forger) work(ctx context.Context, p *stagestest.Pipeline) error {
	var err error
	if f.conn, err = p.Dial(ctx, broker.RoleBroker); err != nil {
		return err
	}
	defer f.conn.Close()
	f.name = p.Dir.Name()
	if err := f.conn.WaitGeneration(ctx, 1); err != nil {
		return err
	}
	for i := range uint32(forgedBatches) {
		if err := f.forge(ctx, i); err != nil {
			return fmt.Errorf("forge batch %d: %w", i, err)
		}
	}
	return nil
}

// forge sends impossible records about a batch, and handles that are stale or made up.
func (f *forger) forge(ctx context.Context, index uint32) error {
	p := f.run.Plan.Batch(int(index))
	b := schema.Batch{Run: f.name, Gen: 1, Epoch: uint32(p.Epoch), Window: uint32(p.Window), Index: index, Bucket: p.Bucket}
	root := schema.Root{Batch: b, Documents: uint32(len(p.Docs)), Tokens: uint32(p.Tokens)}
	hop := schema.Hop{Batch: b, SlotRef: schema.SlotRef{Pool: "target-1", Incarnation: 7, Slot: 0, Generation: 1}, Documents: root.Documents,
		Tokens: root.Tokens, Width: forgedWidth, Root: "$JS.ACK.PS_FWD.fwd-1-" + b.Bucket + ".1.999.999.1.0", From: "nobody"}
	roots := []func(*schema.Root){
		func(r *schema.Root) { r.Index += 1 << 20 },
		func(r *schema.Root) { r.Window++ },
		func(r *schema.Root) { r.Tokens++ },
		func(r *schema.Root) { r.Gen = 0 },
	}
	hops := []func(*schema.Hop){
		func(h *schema.Hop) { h.Index += 1 << 20 },
		func(h *schema.Hop) { h.Epoch++ },
		func(h *schema.Hop) { h.Window += 7 },
		func(h *schema.Hop) { h.Gen = 9 },
		func(h *schema.Hop) {},                    // its handle is of an owner that is not there
		func(h *schema.Hop) { h.Pool = "none-9" }, // of a pool that never was
		func(h *schema.Hop) { h.Pool = "../../etc" },
		func(h *schema.Hop) { h.Root = "$JS.API.STREAM.PURGE.PS_LEDGER" },
		func(h *schema.Hop) { h.Root = "" },
		func(h *schema.Hop) { h.Bucket = "b.>" },
	}
	for i, change := range hops {
		h := hop
		change(&h)
		f.sent++
		id := fmt.Sprintf("forged-%d-%d", index, i)
		for _, e := range []broker.Edge[schema.Hop]{broker.Pack, broker.Train} {
			if err := broker.NewPublisher(f.conn, e).Publish(ctx, b.Bucket, h, id); err != nil {
				return err
			}
		}
	}
	for slot := range uint32(4) {
		f.sent++
		rel := schema.Release{SlotRef: schema.SlotRef{Pool: "target-1", Incarnation: 7, Slot: slot, Generation: uint64(index)}, By: "nobody"}
		if err := broker.NewPublisher(f.conn, broker.Rel).Publish(ctx, "target-1", rel, fmt.Sprintf("forged-%d-%d", index, slot)); err != nil {
			return err
		}
	}
	if index > 0 { // a bucket holds a few roots only
		return nil
	}
	for i, change := range roots {
		r := root
		change(&r)
		f.sent++
		if err := broker.NewPublisher(f.conn, broker.Fwd).PublishWhenFree(ctx, b.Bucket, r, fmt.Sprintf("forged-%d-%d", index, i)); err != nil {
			return err
		}
	}
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond) // the server answers nothing
	defer cancel()
	if err := f.conn.AckRoot(short, hop.Root); err == nil {
		return errors.New("an acknowledgement of a root that is not there was taken")
	}
	return nil
}

// TestForgedRecords has a run go on among impossible records, stale and made-up handles, releases and acknowledgements, and
// expects the ledger and the weights of a run that was left alone.
func TestForgedRecords(t *testing.T) {
	config := stagestest.Config(t, 40, func(c *schema.Config) {
		c.Deterministic = true
		c.Broker.AckWait = "1s"
		c.Data.Store = t.TempDir()
	})
	calm := stagestest.New(t, config)
	if err := calm.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	run := openPlan(t, calm)
	defer run.Store.Close()
	f := &forger{run: run}
	p := stagestest.New(t, config)
	if err := p.Run(t.Context(), func(ctx context.Context) error { return f.work(ctx, p) }); err != nil {
		t.Fatal(err)
	}
	if f.sent != forgedBatches*14+4 {
		t.Errorf("%d forged records were sent before the run ended", f.sent)
	}
	if got, want := count(t, p), count(t, calm); got != want {
		t.Errorf("ledger %+v, undisturbed %+v", got, want)
	}
	if !bytes.Equal(weights(t, p), weights(t, calm)) {
		t.Error("other weights than undisturbed")
	}
}
