// Package target runs the frozen model over batches, or reads its stored features, and leaves the captures in a slot for
// the packer.
package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/telemetry"
	"penstock/stages/internal/worker"
)

// Run is the stage. It returns once every window of the plan has committed.
func Run(ctx context.Context, env *runtime.Env) error {
	return worker.Run(ctx, env, func(ctx context.Context, w *worker.Worker) error {
		dev, err := w.OpenDevice()
		if err != nil {
			return err
		}
		defer dev.Close()
		from, geo, err := open(dev, w)
		if err != nil {
			return runtime.Permanent(err)
		}
		defer from.close()
		run, err := w.AwaitPlan(ctx)
		if err != nil {
			return err
		}
		defer run.Store.Close()
		if err := check(from, w, run, geo); err != nil {
			return runtime.Permanent(err)
		}
		if backend.IsGPU(w.Device) {
			if err := from.rehearse(run.Shapes()); err != nil {
				return err
			}
		}
		taps := w.Config.Target.Taps
		width, costs := len(taps)*geo.HiddenSize, worker.TargetCosts(geo, taps[len(taps)-1]+1)
		drafting, err := w.DraftRates()
		if err != nil {
			return runtime.Permanent(err)
		}
		pool, err := w.OpenPool(ctx, dev, w.Config.Target.Slots, run.MaxTokens()*width)
		if err != nil {
			return err
		}
		defer pool.Close()
		return w.Generations(ctx, func(ctx context.Context, gen uint32) error {
			s := &session{w: w, run: run, pool: pool, from: from, dev: dev, width: width, costs: costs, drafting: drafting, gen: gen,
				pub: broker.NewPublisher(w.Conn, broker.Pack), settle: worker.NewSettler(),
				started: make(chan forwarded, 1), flying: worker.NewFlying(w.Book)}
			s.again = worker.NewAgain(pool, func(ctx context.Context, h schema.Hop, id string) error { return s.pub.Publish(ctx, h.Bucket, h, id) })
			return s.serve(ctx)
		})
	})
}

// session is the work of one generation.
type session struct {
	w      *worker.Worker
	run    *worker.RunPlan
	pool   *worker.Pool
	from   source
	dev    kernels.Device
	width  int // of a captured row
	costs  *worker.Costs
	gen    uint32
	pub    *broker.Publisher[schema.Hop]
	settle *worker.Settler
	again  *worker.Again
	left   map[uint32]time.Time // batches that are left to another target, and since when

	drafting policy.Rates // the operations of a drafter's work on a batch

	started chan forwarded // given to the device, in order
	flying  *worker.Flying
}

// serve gives forwards to the device on one goroutine. Others wait for them and publish what is complete, so that the device
// never waits for the broker, nor for its host between two forwards.
func (s *session) serve(ctx context.Context) error {
	s.pool.FreeAll()
	g, ctx := errgroup.WithContext(ctx)
	s.settle.Start(ctx, g)
	g.Go(func() error { return s.again.Run(ctx) })
	g.Go(func() error { return s.complete(ctx) })
	g.Go(func() error {
		defer close(s.started)
		if err := s.pullAndForward(ctx); err != nil {
			return err
		}
		return errDone
	})
	err := g.Wait()
	for f := range s.started { // nothing writes to a slot behind the session's back
		_, _ = f.finish(s)
	}
	if !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// errDone ends the goroutines of a session whose run is complete.
var errDone = errors.New("all windows have committed")

// publish hands a slot on. The message id names this use of the slot: a batch that is forwarded again is a new message.
func (s *session) publish(ctx context.Context, f forwarded, sum uint64) error {
	r := f.root.Record
	hop := schema.Hop{
		Batch: r.Batch, SlotRef: f.use.Ref, Documents: r.Documents, Tokens: r.Tokens, Width: uint32(s.width),
		Checksum: sum, Root: f.root.AckSubject, From: s.w.Instance, Sent: s.w.Now(),
	}
	if err := s.pub.Publish(telemetry.Carry(ctx, f.trace), r.Bucket, hop, worker.HopID(f.use.Ref)); err != nil {
		return fmt.Errorf("hand on batch %d: %w", r.Index, err)
	}
	s.again.HandedOn(hop)
	s.w.Status.Batches.Add(1)
	s.w.Status.Tokens.Add(uint64(r.Tokens))
	return nil
}
