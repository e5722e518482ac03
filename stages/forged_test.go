package stages_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/backend"
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
	var said []schema.Batch
	err := p.Run(t.Context(), func(ctx context.Context) error {
		beside, ctx := errgroup.WithContext(ctx)
		beside.Go(func() error { return f.work(ctx, p) })
		beside.Go(func() error {
			var err error
			said, err = unplanned(ctx, p, run)
			return err
		})
		return beside.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(said) > 0 {
		t.Errorf("the ledger speaks of batches that are not planned: %+v", said)
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

// unplanned collects the batches that the ledger speaks of and the plan does not.
func unplanned(ctx context.Context, p *stagestest.Pipeline, run *worker.RunPlan) (said []schema.Batch, err error) {
	conn, err := p.Dial(ctx, broker.RoleObserver)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = conn.Ledger().Follow(ctx, broker.LedgerAll, 0, func(e broker.Entry) error {
		var b schema.Batch
		switch rec := e.Record.(type) {
		case schema.Claim:
			b = rec.Batch
		case schema.Added:
			b = rec.Batch
		case schema.Suspect:
			b = rec.Batch
		case schema.Dead:
			b = rec.Batch
		default:
			return nil
		}
		if !run.Has(b) {
			said = append(said, b)
		}
		return nil
	})
	if ctx.Err() != nil {
		err = nil
	}
	return said, err
}

// TestForgedAcknowledgements has somebody acknowledge every root that is being worked on, while the first features of each
// batch are bad and its root, which is gone, cannot be delivered again: it is published anew.
func TestForgedAcknowledgements(t *testing.T) {
	config := stagestest.Config(t, 30, func(c *schema.Config) {
		c.Deterministic = true
		c.Target.Instances = 1
		c.Broker.AckWait = "1s"
		c.Data.Store = t.TempDir()
	})
	calm := stagestest.New(t, config)
	if err := calm.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p := poisoned(t, config, "target-1", func(_, nth int) bool { return nth == 1 }, poisons[0].spoil)
	var r records
	var a acknowledger
	err := p.Run(t.Context(), func(ctx context.Context) error {
		beside, ctx := errgroup.WithContext(ctx)
		beside.Go(func() error { return r.follow(ctx, p) })
		beside.Go(func() error { return a.work(ctx, p) })
		return beside.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	if a.forged == 0 || a.again == 0 || len(r.suspects) == 0 || len(r.dead) != 0 {
		t.Errorf("%d acknowledgements forged, %d roots published again, suspects %+v, dead %+v; want none dead and some of the others",
			a.forged, a.again, r.suspects, r.dead)
	}
	if got, want := count(t, p), count(t, calm); got != want {
		t.Errorf("ledger %+v, undisturbed %+v", got, want)
	}
	if !bytes.Equal(weights(t, p), weights(t, calm)) {
		t.Error("other weights than undisturbed")
	}
}

// acknowledger acknowledges roots that others work on.
type acknowledger struct {
	forged int // acknowledgements
	again  int // roots that were published a second time
}

// work reads along until ctx ends, and acknowledges the root of every capture with the key of a target.
func (a *acknowledger) work(ctx context.Context, p *stagestest.Pipeline) error {
	conn, err := p.Dial(ctx, broker.RoleTarget)
	if err != nil {
		return err
	}
	defer conn.Close()
	key, err := nats.NkeyOptionFromSeed(broker.KeyFile(p.Dir.Keys(), broker.RoleObserver))
	if err != nil {
		return err
	}
	nc, err := nats.Connect(conn.URL(), key)
	if err != nil {
		return err
	}
	defer nc.Close()
	msgs := make(chan *nats.Msg, 1<<12)
	if _, err := nc.ChanSubscribe("ps.>", msgs); err != nil {
		return err
	}
	seen := map[uint32]bool{}
	for {
		select {
		case m := <-msgs:
			rec, err := schema.DecodeAny(m.Data)
			if err != nil {
				return err
			}
			switch rec := rec.(type) {
			case schema.Root:
				if seen[rec.Index] {
					a.again++
				}
				seen[rec.Index] = true
			case schema.Hop:
				a.forged++
				if err := conn.AckSoon(rec.Root); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// TestForgedAcknowledgementOfAHop has a packer die with a hop in its hands that somebody has acknowledged: the target, whose
// slot it is, hands it on again.
func TestForgedAcknowledgementOfAHop(t *testing.T) {
	config := stagestest.Config(t, 30, func(c *schema.Config) {
		c.Deterministic = true
		c.Target.Instances = 1
		c.Broker.AckWait = "1s"
		c.Data.Store = t.TempDir()
	})
	calm := stagestest.New(t, config)
	if err := calm.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	p := stagestest.New(t, config)
	var conn *broker.Conn
	var forged, delivered atomic.Int32
	p.Fault = func(who string, op broker.Op, subject string) broker.Outcome {
		if who != "pack-1" || op != broker.OpDeliver || !strings.HasPrefix(subject, "ps.pack.") || delivered.Add(1) != 2 {
			return broker.Pass
		}
		for seq := range 64 { // in the stream, and, a little ahead, in the consumer's deliveries
			for more := range 16 {
				if conn.AckSoon(fmt.Sprintf("$JS.ACK.PS_PACK.pack-1.1.%d.%d.1.0", seq+1, seq+1+more)) == nil {
					forged.Add(1)
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if conn.Ping(ctx) != nil { // they may not be there yet
			return broker.Pass
		}
		return broker.Cut
	}
	p.Open = func(instance, device string) (kernels.Device, error) {
		if instance == "pack-1" && conn == nil { // before it takes anything
			var err error
			if conn, err = p.Dial(t.Context(), broker.RolePack); err != nil {
				return nil, err
			}
		}
		return backend.Open(device)
	}
	err := p.Run(t.Context(), nil)
	if conn != nil {
		conn.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if forged.Load() == 0 {
		t.Error("nothing was forged")
	}
	if got, want := count(t, p), count(t, calm); got != want {
		t.Errorf("ledger %+v, undisturbed %+v", got, want)
	}
	if !bytes.Equal(weights(t, p), weights(t, calm)) {
		t.Error("other weights than undisturbed")
	}
}
