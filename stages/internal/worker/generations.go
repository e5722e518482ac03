package worker

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/account"
)

// Generations calls body for the generation in force and again for each later one. The context of a call ends, with
// cause Superseded, when a later generation opens. A generation whose windows have all committed need not be the last: until
// the drafter has saved what it trained, its death leads to another. So after body has returned nil, it is the drafter who
// says that the run is complete, and then Generations returns.
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
		if err == nil {
			if err = w.complete(ctx, gen); errors.As(err, &over) {
				continue
			}
			return err
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

// complete returns nil when the drafter says that the run is complete, or Superseded when it opens another generation.
func (w *Worker) complete(ctx context.Context, gen uint32) error {
	w.Status.Wait("the draft stage to say whether the run is complete")
	w.Book.Enter(account.NoInput)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		var by uint32
		if err := w.Ledger.Wait(ctx, func(l *policy.Lineage) bool { by = l.Gen; return by > gen }); err != nil {
			return err
		}
		return Superseded{by}
	})
	g.Go(func() error {
		return w.Conn.Board().Watch(ctx, KeyProgress, func(h broker.Hint) error {
			if p, ok := h.Record.(schema.Progress); ok && p.Done {
				return errComplete
			}
			return nil
		})
	})
	if err := g.Wait(); !errors.Is(err, errComplete) {
		return err
	}
	return nil
}

// errComplete ends what waits for the run to be complete.
var errComplete = errors.New("the run is complete")

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
