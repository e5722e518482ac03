// Package pack takes captures out of the targets' slots into its own: it concatenates them in the layout that the
// drafter reads, tests them, adds noise if asked to, and gives the target its slot back.
package pack

import (
	"context"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/runtime"
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
		run, err := w.AwaitPlan(ctx)
		if err != nil {
			return err
		}
		defer run.Store.Close()
		width, err := w.Width()
		if err != nil {
			return runtime.Permanent(err)
		}
		drafting, err := w.DraftRates()
		if err != nil {
			return runtime.Permanent(err)
		}
		pool, err := w.OpenPool(ctx, dev, w.Config.Pack.Slots, run.MaxTokens()*width)
		if err != nil {
			return err
		}
		defer pool.Close()
		var added *noise
		if w.Config.Pack.Noise > 0 {
			added = &noise{make([]float32, run.MaxTokens()*width), dev.AllocHalf(run.MaxTokens(), width)}
		}
		views := w.OpenViews(dev)
		defer views.Close()
		return w.Generations(ctx, func(ctx context.Context, gen uint32) error {
			s := &session{w: w, run: run, pool: pool, views: views, dev: dev, width: width, noise: added, gen: gen, drafting: drafting,
				pub: broker.NewPublisher(w.Conn, broker.Train), park: worker.NewPark(w.Keeper), settle: worker.NewSettler()}
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
	views  *worker.Views
	dev    kernels.Device
	width  int
	gen    uint32
	pub    *broker.Publisher[schema.Hop]
	park   *worker.Park
	settle *worker.Settler
	again  *worker.Again

	drafting policy.Rates // the operations of a drafter's work on a batch

	noise  *noise    // nil for none
	noSlot time.Time // since when the parked hops wait for a slot; zero: they do not
}

// noise is room for what is added to a batch's features: as it is drawn, and on the device.
type noise struct {
	drawn []float32
	there kernels.Tensor
}
