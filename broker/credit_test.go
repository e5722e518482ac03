package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/brokertest"
)

// TestCreditHoldsInMotion moves a bucket's limit while three targets pull and acknowledge, and asks the server itself
// how many roots are open.
func TestCreditHoldsInMotion(t *testing.T) {
	b := brokertest.Start(t)
	c := b.Conn("batch", broker.Options{})
	ctx := brokertest.Context(t)
	const n, ceiling = 400, 8
	brokertest.Open(t, c, 1, ceiling, "b64")
	settled := make(chan struct{}, n)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return builder(ctx, c, 1, 0, 2*n, "b64") })
	for i := range 3 {
		tc := b.Conn(fmt.Sprintf("target%d", i), broker.Options{})
		p := roots(t, tc, 1, "b64")
		g.Go(func() error {
			for len(settled) < n {
				d, err := p.FetchNoWait(ctx)
				if errors.Is(err, broker.ErrEmpty) {
					continue
				}
				if err == nil {
					err = d.Ack(ctx)
				}
				if err != nil {
					return err
				}
				settled <- struct{}{}
			}
			return nil
		})
	}
	g.Go(func() error { return moveCredit(ctx, c, ceiling, func() bool { return len(settled) == n }) })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}

func moveCredit(ctx context.Context, c *broker.Conn, ceiling int, done func() bool) error {
	before := ceiling
	for !done() {
		limit := 1 + rand.IntN(ceiling)
		if err := c.SetCredit(ctx, 1, "b64", limit); err != nil {
			return err
		}
		for range 4 {
			a, err := c.Credit(ctx, 1, "b64")
			if err != nil {
				return err
			}
			if a.Limit != limit || a.Open > max(limit, before) { // a lower limit takes nothing back
				return fmt.Errorf("%d open of %d (before: %d): %+v", a.Open, limit, before, a)
			}
		}
		before = limit
	}
	return nil
}
