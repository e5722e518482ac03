package batch

import (
	"context"
	"sync/atomic"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/runtime"
)

const hintEvery = 500 * time.Millisecond

// limits returns the bounds of a bucket's pull limit.
func limits(p *plan.Plan, bucket string, lookahead int) policy.Limits {
	return policy.Limits{Floor: p.Floor(bucket), Ceiling: p.Ceiling(bucket, lookahead)}
}

// suffice refuses limits and slots that cannot cover a window, once the generation's consumers stand.
func (b *builder) suffice(ctx context.Context) error {
	c := b.w.Config
	if err := policy.CoverRanks(c.Window.Batches, c.Draft.Ranks); err != nil {
		return runtime.Permanent(err)
	}
	for _, bucket := range b.plan.Buckets() {
		credit, err := b.w.Conn.Credit(ctx, b.gen, bucket.Name)
		if err != nil {
			return err
		}
		if err := limits(b.plan, bucket.Name, c.Window.Lookahead).Cover(bucket.Name, credit.Limit); err != nil {
			return runtime.Permanent(err)
		}
	}
	slots := c.Target.Instances*c.Target.Slots + c.Pack.Instances*c.Pack.Slots
	for _, hop := range []broker.Edge[schema.Hop]{broker.Pack, broker.Train} {
		credit, err := b.w.Conn.HopCredit(ctx, hop, b.gen)
		if err != nil {
			return err
		}
		if err := policy.CoverSlots(hop.Stream, credit.Limit, slots); err != nil {
			return runtime.Permanent(err)
		}
	}
	return nil
}

// balance moves the pull limits while the run goes on, and keeps stock and credit of each bucket on the board, a last
// time when over closes.
func (b *builder) balance(ctx context.Context, published []*atomic.Uint32, over <-chan struct{}) error {
	buckets := b.plan.Buckets()
	actuators := make([]policy.Actuator, len(buckets))
	bounds := make([]policy.Limits, len(buckets))
	for i, bucket := range buckets {
		bounds[i] = limits(b.plan, bucket.Name, b.w.Config.Window.Lookahead)
	}
	tick := time.NewTicker(hintEvery)
	defer tick.Stop()
	for last := false; ; {
		credits := make([]broker.Credit, len(buckets))
		for i, bucket := range buckets {
			var err error
			if credits[i], err = b.w.Conn.Credit(ctx, b.gen, bucket.Name); err != nil {
				return quiet(ctx, err)
			}
		}
		wants := policy.Balance(b.stocks(bounds, credits))
		for i, bucket := range buckets {
			limit := actuators[i].Move(credits[i].Limit, wants[i], credits[i].Open, b.w.Config.Target.Instances)
			if limit != credits[i].Limit {
				if err := b.w.Conn.SetCredit(ctx, b.gen, bucket.Name, limit); err != nil {
					return quiet(ctx, err)
				}
			}
			n := published[i].Load()
			state := schema.BucketState{
				Bucket: bucket.Name, Credit: uint32(limit), Floor: uint32(bounds[i].Floor), Ceiling: uint32(bounds[i].Ceiling),
				Published: n, Remaining: uint32(bucket.Batches) - min(uint32(bucket.Batches), n),
			}
			b.w.Metrics.Bucket(state, credits[i].Open, credits[i].Queued)
			if err := b.w.Conn.Board().Put(ctx, "bucket."+bucket.Name, state); err != nil {
				return quiet(ctx, err)
			}
		}
		if last {
			return nil
		}
		select {
		case <-tick.C:
		case <-over:
			last = true
		case <-ctx.Done():
			return nil
		}
	}
}

// stocks is each bucket as the balance sees it: what the consumers say, held against the plan.
func (b *builder) stocks(bounds []policy.Limits, credits []broker.Credit) []policy.Stock {
	_, next := b.w.Ledger.Front()
	first, last := int(next), int(next)+b.w.Config.Window.Lookahead
	stocks := make([]policy.Stock, len(credits))
	for i, bucket := range b.plan.Buckets() {
		left := int(credits[i].Queued)
		if _, later := b.plan.Next(bucket.Name, last+1, 0); later {
			left++
		}
		stocks[i] = policy.Stock{
			Limits: bounds[i], Open: credits[i].Open,
			Within: b.plan.InWindows(bucket.Name, first, last), Left: left,
		}
	}
	return stocks
}
