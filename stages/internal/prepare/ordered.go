package prepare

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Ordered works on what produce emits with several workers and hands the results to consume in the order of emission. No
// more than a few results a worker wait at any time. It returns when all have ended; the first error ends the others.
func Ordered[In, Out any](ctx context.Context, workers int, produce func(ctx context.Context, emit func(In) error) error,
	work func(In) Out, consume func(Out) error) error {
	type job struct {
		in  In
		out chan Out
	}
	g, ctx := errgroup.WithContext(ctx)
	jobs, pending := make(chan job), make(chan job, 4*workers)
	send := func(to chan job, j job) error {
		select {
		case to <- j:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.Go(func() error {
		defer close(jobs)
		defer close(pending)
		return produce(ctx, func(in In) error {
			j := job{in, make(chan Out, 1)}
			if err := send(pending, j); err != nil {
				return err
			}
			return send(jobs, j)
		})
	})
	for range workers {
		g.Go(func() error {
			for j := range jobs {
				j.out <- work(j.in)
			}
			return nil
		})
	}
	g.Go(func() error {
		for j := range pending {
			select {
			case out := <-j.out:
				if err := consume(out); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return g.Wait()
}
