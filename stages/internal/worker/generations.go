package worker

import (
	"context"
	"errors"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
)

// Generations calls body for the generation in force and again for each later one. The context of a call ends, with
// cause Superseded, when a later generation opens. It returns when body returns nil, or fails for another reason. A first
// generation in which there was nothing left to do is one that a former process may have completed and not saved: then the
// drafter decides whether the run is complete.
func (w *Worker) Generations(ctx context.Context, body func(ctx context.Context, gen uint32) error) error {
	for last := uint32(0); ; {
		w.Status.Wait("a generation to open: the draft stage does it")
		gen, err := w.Ledger.generation(ctx, w.Run.Name(), last)
		if err != nil {
			return err
		}
		last = gen
		genCtx, cancel := context.WithCancelCause(ctx)
		watch := make(chan struct{})
		go func() {
			defer close(watch)
			var by uint32
			if w.Ledger.Wait(genCtx, func(l *policy.Lineage) bool { by = l.Gen; return by > gen }) == nil {
				cancel(Superseded{by})
			}
		}()
		w.Status.Gen.Store(gen)
		if err = w.Conn.WaitGeneration(genCtx, gen); err == nil {
			err = body(genCtx, gen)
		}
		cause := context.Cause(genCtx)
		cancel(nil)
		<-watch
		var over Superseded
		if errors.As(cause, &over) {
			continue
		}
		if err == nil && w.Status.Batches.Load() == 0 {
			if again, err := w.reopened(ctx, gen); err != nil || !again {
				return err
			}
			continue
		}
		if errors.Is(err, broker.ErrGone) { // its consumers went before we heard why
			if pause(ctx, 10*time.Millisecond) == nil {
				last = gen - 1
				continue
			}
		}
		return err
	}
}

// lookEvery is how often it is looked whether the drafter has said that the run is complete.
const lookEvery = 500 * time.Millisecond

// reopened waits until a generation opens after a complete one, or the drafter says that the run is complete.
func (w *Worker) reopened(ctx context.Context, gen uint32) (bool, error) {
	w.Status.Wait("the draft stage to say whether the run is complete")
	for {
		changed := w.Ledger.Changed()
		if now, _ := w.Ledger.Front(); now > gen {
			return true, nil
		}
		h, ok, err := w.Conn.Board().Get(ctx, KeyProgress)
		if err != nil {
			return false, err
		}
		if p, is := h.Record.(schema.Progress); ok && is && p.Done {
			return false, nil
		}
		if err := WaitEither(ctx, changed, lookEvery); err != nil {
			return false, err
		}
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
