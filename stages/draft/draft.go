// Package draft trains the drafter: one optimizer step a window, over whatever order its batches arrive in.
//
// A batch goes through intake (claim, copy), the device (forward, backward into a scratch gradient), the ledger (added)
// and only then into the window's sum. A window that is complete is committed, stepped, and its roots acknowledged.
package draft

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// Run is the stage. It returns when the run is complete and exported, or after a checkpoint when asked to stop.
func Run(ctx context.Context, env *runtime.Env) error {
	return worker.Run(ctx, env, func(ctx context.Context, w *worker.Worker) error {
		dev, err := backend.Open(w.Device)
		if err != nil {
			return runtime.Permanent(err)
		}
		defer dev.Close()
		run, err := w.AwaitPlan(ctx)
		if err != nil {
			return err
		}
		defer run.Store.Close()
		t, err := newTrainer(w, run, dev)
		if err != nil {
			return runtime.Permanent(err)
		}
		defer t.close()
		if err := t.open(ctx); err != nil {
			return err
		}
		err = t.train(ctx)
		if ctx.Err() != nil && (err == nil || errors.Is(err, context.Cause(ctx))) {
			if serr := t.save(); serr != nil {
				return serr
			}
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		return t.finish(ctx)
	})
}

// open starts a generation at the window where the weights stand.
func (t *trainer) open(ctx context.Context) error {
	t.w.Status.Wait("the broker, to open a generation")
	kept, err := t.w.Run.Generation()
	if err != nil {
		return err
	}
	last, err := t.w.Conn.Ledger().LastGen(ctx)
	if err != nil {
		return err
	}
	t.gen = max(kept, last.Gen) + 1
	if err := t.w.Run.WriteGeneration(t.gen); err != nil {
		return err
	}
	g := broker.Generation{
		Gen:     schema.Gen{Run: t.w.Run.Name(), Gen: t.gen, Start: t.state.Window, By: t.w.Instance},
		AckWait: t.w.AckWait,
	}
	for _, b := range t.run.Plan.Buckets() {
		ceiling := max(1, t.run.Plan.Ceiling(b.Name, t.w.Config.Window.Lookahead))
		g.Buckets = append(g.Buckets, broker.BucketCredit{Bucket: b.Name, Credit: ceiling, Ceiling: ceiling})
	}
	if err := t.w.Conn.OpenGeneration(ctx, g); err != nil {
		return err
	}
	t.w.Log.Info("generation opened", "gen", t.gen, "window", t.state.Window, "of", t.run.Plan.Windows())
	return t.lines.Append(openLine(t.gen, t.state.Window))
}

// train runs the windows that are left. It returns nil once all have committed.
func (t *trainer) train(ctx context.Context) error {
	if int(t.state.Window) >= t.run.Plan.Windows() {
		return nil
	}
	src, err := t.w.Conn.Hops(ctx, broker.Train, t.gen)
	if err != nil {
		return err
	}
	defer worker.CloseSource(ctx, src)
	defer t.park.Leave()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.park.Receive(ctx, src, worker.Always) })
	g.Go(func() error { return t.superseded(ctx) })
	for range intakes {
		g.Go(func() error { return t.intake(ctx) })
	}
	t.settle.Start(ctx, g)
	g.Go(func() error { return t.evaluator.run(ctx) })
	g.Go(func() error { return t.report.run(ctx) })
	g.Go(func() error {
		for int(t.state.Window) < t.run.Plan.Windows() {
			if err := t.window(ctx); err != nil {
				return fmt.Errorf("window %d: %w", t.state.Window, err)
			}
		}
		if err := t.settle.Drain(ctx); err != nil {
			return err
		}
		return errDone
	})
	if err := g.Wait(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

var errDone = errors.New("all windows have committed")

// superseded ends the stage if somebody else opens a generation: then these weights are no longer the run's.
func (t *trainer) superseded(ctx context.Context) error {
	for {
		changed := t.w.Ledger.Changed()
		if gen, _ := t.w.Ledger.Front(); gen > t.gen {
			return worker.Superseded{By: gen}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
