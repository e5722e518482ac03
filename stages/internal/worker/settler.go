package worker

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// settlers is how many things are settled at once; each waits for the broker a few times.
const settlers = 8

// Settler does what has to be told to the broker, off the path of whoever computes. The first failure ends its group.
type Settler struct {
	todo chan func(context.Context) error
	open sync.WaitGroup
}

// NewSettler returns a settler; Start must follow.
func NewSettler() *Settler { return &Settler{todo: make(chan func(context.Context) error, 4*settlers)} }

// Start runs the settler's goroutines in g until ctx ends.
func (s *Settler) Start(ctx context.Context, g *errgroup.Group) {
	for range settlers {
		g.Go(func() error {
			for {
				select {
				case f := <-s.todo:
					err := f(ctx)
					s.open.Done()
					if err != nil {
						return err
					}
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
		})
	}
}

// Do has f done by one of the goroutines. Order is not kept.
func (s *Settler) Do(ctx context.Context, f func(context.Context) error) error {
	s.open.Add(1)
	select {
	case s.todo <- f:
		return nil
	case <-ctx.Done():
		s.open.Done()
		return context.Cause(ctx)
	}
}

// Drain waits until everything given to Do is done, or ctx ends.
func (s *Settler) Drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() { s.open.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
