package target

import (
	"context"
	"math"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/worker"
)

// heads is this target's view of the buckets: a puller each, and the root that each is expected to deliver next.
// Other targets pull too, so an expectation may be behind; it is a hint that orders the attempts.
type heads struct {
	run     *worker.RunPlan
	order   policy.Order
	buckets []*head
}

type head struct {
	name  string
	pull  *broker.Puller[schema.Root]
	next  policy.Head
	since time.Time
}

func (s *session) openHeads(ctx context.Context) (*heads, error) {
	h := &heads{run: s.run, order: policy.Order{Deterministic: s.w.Config.Deterministic, MaxAge: headAge}}
	for _, b := range s.run.Plan.Buckets() {
		p, err := s.w.Conn.Roots(ctx, s.gen, b.Name)
		if err != nil {
			h.close(context.WithoutCancel(ctx))
			return nil, err
		}
		h.buckets = append(h.buckets, &head{name: b.Name, pull: p})
	}
	return h, nil
}

func (h *heads) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for _, b := range h.buckets {
		_ = b.pull.Close(ctx) // what is not handed back comes back by itself after AckWait
	}
}

// pull tries the buckets in the order that the rules give and returns the first root there is, or ErrEmpty. front is
// the first window that has not committed. A bucket whose expected root may is false for is left out: it would be
// refused, unless the expectation is ahead of a root that came back.
func (h *heads) pull(ctx context.Context, front uint32, may func(policy.Head) bool) (*broker.Delivery[schema.Root], error) {
	now := time.Now()
	var order []policy.Head
	by := map[string]*head{}
	for _, b := range h.buckets {
		if b.next.Window < front || b.next.Bucket == "" {
			h.advance(b, front, 0, now)
		}
		b.next.Age = now.Sub(b.since)
		if may(b.next) {
			order = append(order, b.next)
			by[b.name] = b
		}
	}
	h.order.Choose(order)
	for _, o := range order {
		d, err := by[o.Bucket].pull.FetchNoWait(ctx)
		if err == broker.ErrEmpty {
			continue
		}
		if err != nil {
			return nil, err
		}
		h.advance(by[o.Bucket], d.Record.Window, d.Record.Index+1, now)
		return d, nil
	}
	return nil, broker.ErrEmpty
}

// advance expects the bucket's first batch at or after an index, no earlier than a window. Behind the last planned one
// only roots that come back are left; they are tried after everything else.
func (h *heads) advance(b *head, window, index uint32, now time.Time) {
	b.since = now
	for w := int(window); w < h.run.Plan.Windows(); w++ {
		for _, p := range h.run.Plan.Window(w) {
			if p.Bucket == b.name && p.Index >= int(index) {
				b.next = policy.Head{Bucket: b.name, Window: uint32(w), Index: uint32(p.Index), Cost: float64(p.Tokens)}
				return
			}
		}
	}
	b.next = policy.Head{Bucket: b.name, Window: math.MaxUint32, Index: math.MaxUint32}
}
