// Package draft trains the drafter: one optimizer step a window, over whatever order its batches arrive in, on one rank
// or on several that add up what each of them has summed.
//
// A batch goes through intake (claim, copy), the device (forward, backward), the ledger (added) and only then into the
// rank's part of the window's sum. A window that is complete is reduced over the ranks, committed by one of them, and
// stepped by each that has read the commit; then its roots are acknowledged. A rank alone goes ahead of the ledger by a
// window: see alone.go.
package draft

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/slots"
	"penstock/kernels"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// Run is the stage. It returns when the run is complete, and exported by the rank that leads, or when asked to stop,
// which that rank does after a checkpoint.
func Run(ctx context.Context, env *runtime.Env) error {
	return worker.Run(ctx, env, func(ctx context.Context, w *worker.Worker) error {
		run, err := w.AwaitPlan(ctx)
		if err != nil {
			return err
		}
		defer run.Store.Close()
		var refused refusals
		for incarnation := w.Incarnation; ; incarnation = slots.Incarnation() { // of the rank: what it did before is void
			err := attend(ctx, w, run, incarnation)
			var over worker.Superseded
			if !errors.Is(err, errPutOut) && !errors.Is(err, errRefused) && !errors.As(err, &over) {
				return err
			}
			if errors.Is(err, errRefused) {
				_, next := w.Ledger.Front()
				if err := refused.again(next, err); err != nil {
					return err
				}
			}
			w.Log.Warn("this rank's weights are not the run's, joining again", "err", err)
			give := func(ackSubject string) error { return w.Conn.NakRoot(ctx, ackSubject, 0) }
			if err := w.Keeper.Abandon(give); err != nil {
				return err
			}
		}
	})
}

// errPutOut says that the group went on without this rank: its weights are behind.
var errPutOut = errors.New("the other ranks went on without this one")

// attend becomes a member of the rank group and trains until the run is complete, or the group goes on without it.
func attend(ctx context.Context, w *worker.Worker, run *worker.RunPlan, incarnation uint64) error {
	dev, err := w.OpenDevice()
	if err != nil {
		return err
	}
	defer dev.Close() // it gives back what this membership has allocated
	t, err := newTrainer(w, run, dev, incarnation)
	if err != nil {
		return runtime.Permanent(err)
	}
	defer t.close()
	if in, err := t.enter(ctx); err != nil || !in {
		return err
	}
	if t.lead != nil && t.ended() {
		if ok, err := t.stands(ctx); ok || err != nil {
			return err
		}
	}
	err = t.train(ctx)
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Cause(ctx))) {
		if t.lead != nil && !errors.Is(context.Cause(ctx), kernels.ErrFailed) { // nothing is left there to be saved
			if cerr := t.conclude(ctx); cerr != nil {
				t.w.Log.Warn("the last step is not saved: its commit is not known to be stored", "err", cerr)
				return context.Cause(ctx)
			}
			if serr := t.save(); serr != nil {
				t.w.Log.Warn("what was trained since the last checkpoint is not saved: it will be trained again", "window", t.state.Window, "err", serr)
				return serr
			}
		}
		return context.Cause(ctx)
	}
	if err != nil || t.lead == nil {
		return err
	}
	return t.finish(ctx)
}

// train runs the windows that are left. It returns nil once all have committed.
func (t *trainer) train(ctx context.Context) error {
	if t.ended() {
		return nil
	}
	src, err := t.w.Conn.Hops(ctx, broker.Train, t.gen)
	if err != nil {
		return err
	}
	defer worker.CloseSource(ctx, src)
	t.hops = src
	t.w.Status.SetPace(t.costs.Pace)
	t.w.Status.Gen.Store(t.gen)
	t.w.Status.Running()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.park.Receive(ctx, src, t.hungry) })
	g.Go(func() error { return t.superseded(ctx) })
	if t.shared != nil {
		g.Go(func() error { return t.wishes.watch(ctx, t.w.Conn.Board()) })
		g.Go(func() error { return t.watchPeers(ctx) })
		g.Go(func() error { return t.watchHands(ctx) })
		g.Go(func() error { return t.watchStages(ctx) })
	}
	n := intakes
	if t.shared != nil {
		n = depth
	} else {
		g.Go(func() error { return t.tell(ctx) })
	}
	for range n {
		g.Go(func() error { return t.intake(ctx) })
	}
	t.settle.Start(ctx, g)
	g.Go(func() error { return t.evaluator.run(ctx) })
	g.Go(func() error { return t.report.run(ctx) })
	g.Go(func() error {
		for !t.ended() {
			if err := t.boundary(ctx); err != nil {
				return err
			}
			if err := t.window(ctx); err != nil {
				return fmt.Errorf("window %d: %w", t.state.Window, err)
			}
		}
		if err := t.catchUp(ctx); err != nil {
			return err
		}
		if err := t.inherit(); err != nil {
			return err
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

func (t *trainer) ended() bool { return int(t.state.Window) >= t.run.Plan.Windows() }

// superseded ends the membership if somebody opens another generation: then these weights are no longer the run's.
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
