// Package batch is the builder: it prepares the data, plans the run, and publishes one root message a batch, window
// by window, no further ahead than the look-ahead allows.
package batch

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// Run is the stage. It returns once every window of the plan has committed.
func Run(ctx context.Context, env *runtime.Env) error {
	return worker.Run(ctx, env, func(ctx context.Context, w *worker.Worker) error {
		run, err := announce(ctx, w)
		if err != nil {
			return err
		}
		defer run.Store.Close()
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return quiet(ctx, watchRejects(ctx, w)) })
		g.Go(func() error { return warnOfOverlap(ctx, w, run) })
		g.Go(func() error {
			err := w.Generations(ctx, func(ctx context.Context, gen uint32) error {
				b := builder{w: w, plan: run.Plan, gen: gen, pub: broker.NewPublisher(w.Conn, broker.Fwd)}
				return b.watched(ctx)
			})
			if err == nil {
				err = errDone
			}
			return err
		})
		if err := g.Wait(); !errors.Is(err, errDone) {
			return err
		}
		return nil
	})
}

// errDone ends the goroutines of a builder whose run is complete.
var errDone = errors.New("all windows have committed")

// announce prepares the store, or finds it prepared, and says on the board what the run trains on.
func announce(ctx context.Context, w *worker.Worker) (*worker.RunPlan, error) {
	w.Status.Wait("the data to be tokenised")
	run, report, err := worker.Prepare(ctx, w.Config, w.Run)
	if err != nil {
		return nil, err
	}
	w.Log.Info("data is ready", "documents", report.Documents, "tokens", report.Tokens, "rejected", report.Rejected, "store", report.Store)
	info := run.Info(w.Run.Name())
	info.Rows, info.Rejected = uint32(report.Rows), uint32(report.Rejected)
	return run, w.Conn.Board().Put(ctx, worker.KeyPlan, info)
}

// builder publishes the roots of one generation.
type builder struct {
	w    *worker.Worker
	plan *plan.Plan
	gen  uint32
	pub  *broker.Publisher[schema.Root]
}

// root is the message of one planned batch.
func (b *builder) root(p plan.BatchPlan) schema.Root {
	return schema.Root{
		Batch:     schema.Batch{Run: b.w.Run.Name(), Gen: b.gen, Epoch: uint32(p.Epoch), Window: uint32(p.Window), Index: uint32(p.Index), Bucket: p.Bucket},
		Documents: uint32(len(p.Docs)), Tokens: uint32(p.Tokens),
	}
}

// fullFor is how many times AckWait a subject may be full.
const fullFor = 4

// put publishes a root. A subject that is full of what nobody should have put there has room again when the targets have
// thrown it out; one that stays full is an error.
func (b *builder) put(ctx context.Context, bucket string, r schema.Root, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, fullFor*b.w.AckWait, errors.New("its subject stays full"))
	defer cancel()
	return b.pub.PublishWhenFree(ctx, bucket, r, id)
}

// lookEvery is how often the builder looks after the consumers.
const lookEvery = time.Second

// watched publishes while a watchdog looks after the generation's consumers.
func (b *builder) watched(ctx context.Context) error {
	var buckets []string
	for _, bucket := range b.plan.Buckets() {
		buckets = append(buckets, bucket.Name)
	}
	looking, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- b.w.Conn.Watchdog(looking, b.gen, buckets, lookEvery) }()
	err := b.publish(ctx)
	stop()
	if derr := <-done; err == nil && looking.Err() == nil {
		err = derr
	}
	return err
}
