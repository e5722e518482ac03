package target

import (
	"context"
	"math"
	"slices"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/account"
)

// heads is this target's view of the buckets: a puller each, and the root that each is expected to deliver next.
// Other targets pull too, and hand roots back, so an expectation may be behind or ahead: it is a hint that orders the
// attempts.
type heads struct {
	after   func(bucket string, window, index uint32) (policy.Head, policy.Work) // the first planned batch from there on
	cost    func(bucket string, w policy.Work) float64                           // predicted, of all that is to be done with a batch
	order   policy.Order
	buckets []*head
	last    *head         // that gave a root
	tried   []policy.Head // scratch: the heads that are left to try
	idle    time.Duration // how long to wait once no bucket gives anything
	held    time.Time     // since when credit held back what was pulled last; zero: it did not
}

// expected is a root that a bucket may give.
type expected struct {
	policy.Head
	work   policy.Work
	since  time.Time
	from   time.Time // when to ask for it
	misses int       // how often the bucket was asked and gave something else, or nothing
}

// gone is after how many misses a root that was handed back is taken to be with another target.
const gone = 3

// puller is a [broker.Puller] of roots.
type puller interface {
	FetchNoWait(context.Context) (*broker.Delivery[schema.Root], error)
	Spent(context.Context) (bool, error)
	Close(context.Context) error
}

type head struct {
	name string
	pull puller
	next expected
	back []expected // handed back by this target, and not seen to be gone
	held time.Time  // since when the bucket has roots and no credit; zero: it has credit, or no root

	refused bool // in this round it gave a root that may not be worked on yet
}

// cost is how long this target is expected to take for a batch and for the drafter's work on it. What is expensive to the drafters
// goes first as well: they take batches in the order in which those come, and wait for each other at the end of each window.
func (s *session) cost(bucket string, w policy.Work) float64 {
	return s.costs.SecondsFor(bucket, s.costs.Rates().Of(w)+s.drafting.Of(w))
}

func (s *session) openHeads(ctx context.Context) (*heads, error) {
	order := policy.Order{Deterministic: s.w.Config.Deterministic, MaxAge: headAge}
	h := &heads{after: s.after, cost: s.cost, order: order, idle: minIdle}
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
// the first window that has not committed. A bucket whose expected root may is false for is left out: what it gives would
// be refused, unless the expectation is ahead of a root that came back. So after the longest wait the others are asked
// too, each until it has given a root that was refused; ErrEmpty ends that round.
func (h *heads) pull(ctx context.Context, front uint32, may func(policy.Head) bool) (*broker.Delivery[schema.Root], error) {
	now := time.Now()
	h.tried = h.tried[:0]
	for _, b := range h.buckets {
		if b.next.Window < front || b.next.Bucket == "" {
			h.advance(b, front, 0, now)
		}
		x := b.first(front)
		if now.Before(x.from) {
			continue
		}
		x.Age, x.Cost = now.Sub(x.since), h.cost(b.name, x.work)
		if may(x.Head) || h.all() && !b.refused {
			h.tried = append(h.tried, x.Head)
		}
	}
	for len(h.tried) > 0 {
		i := h.order.First(h.tried)
		b := h.bucket(h.tried[i].Bucket)
		h.tried = slices.Delete(h.tried, i, i+1)
		d, err := b.pull.FetchNoWait(ctx)
		if err == broker.ErrEmpty {
			b.came(nothing, now)
			if err := b.hold(ctx, now); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		h.last, h.held, b.held = b, b.held, time.Time{}
		b.came(d.Record.Index, now)
		h.advance(b, d.Record.Window, d.Record.Index+1, now)
		return d, nil
	}
	for _, b := range h.buckets {
		b.refused = false
	}
	return nil, broker.ErrEmpty
}

// all reports whether the buckets are asked whatever they are expected to give.
func (h *heads) all() bool { return h.idle > maxIdle }

// pause is how long to wait after ErrEmpty: longer each time, and from the shortest on after all were asked.
func (h *heads) pause() time.Duration {
	if h.all() {
		h.idle = minIdle
	}
	d := h.idle
	h.idle *= 2
	return d
}

// settled is told that the last root was not handed back.
func (h *heads) settled() { h.idle = minIdle }

// refuse is told that the last root was handed back: its bucket is expected to give it again.
func (h *heads) refuse(r schema.Batch) {
	now := time.Now()
	x := expected{since: now, from: now.Add(notYet)}
	x.Head, x.work = h.after(h.last.name, r.Window, r.Index)
	h.last.back = append(h.last.back, x)
	h.last.refused = true
}

// first is what comes first in plan order of all that the bucket is expected to give from window front on.
func (b *head) first(front uint32) expected {
	b.back = slices.DeleteFunc(b.back, func(x expected) bool { return x.Window < front })
	least := b.next
	for _, x := range b.back {
		if x.Index < least.Index {
			least = x
		}
	}
	return least
}

const nothing = math.MaxUint32 // the index of no root

// came is told what the bucket gave when it was asked: a root, which is expected no longer, or nothing. The others that
// were handed back are asked for a little later.
func (b *head) came(index uint32, now time.Time) {
	b.back = slices.DeleteFunc(b.back, func(x expected) bool { return x.Index == index })
	for i := range b.back {
		if x := &b.back[i]; !now.Before(x.from) {
			x.misses, x.from = x.misses+1, now.Add(notYet)
		}
	}
	b.back = slices.DeleteFunc(b.back, func(x expected) bool { return x.misses == gone })
}

// hold notes whether the bucket that gave nothing has roots that its credit holds back.
func (b *head) hold(ctx context.Context, now time.Time) error {
	spent, err := b.pull.Spent(ctx)
	if err != nil {
		return err
	}
	if !spent {
		b.held = time.Time{}
	} else if b.held.IsZero() {
		b.held = now
	}
	return nil
}

// cause says why no bucket has given a root: its credit is used up, or there is none.
func (h *heads) cause() string {
	for _, b := range h.buckets {
		if !b.held.IsZero() {
			return account.NoCredit
		}
	}
	return account.NoInput
}

func (h *heads) bucket(name string) *head {
	for _, b := range h.buckets {
		if b.name == name {
			return b
		}
	}
	return nil
}

// advance expects the bucket's first batch at or after an index, no earlier than a window.
func (h *heads) advance(b *head, window, index uint32, now time.Time) {
	b.next = expected{since: now}
	b.next.Head, b.next.work = h.after(b.name, window, index)
}

// after is the first planned batch of a bucket at or after an index, no earlier than a window. Behind the last planned one
// only roots that come back are left; they are tried after everything else.
func (s *session) after(bucket string, window, index uint32) (policy.Head, policy.Work) {
	p, ok := s.run.Plan.Next(bucket, int(window), int(index))
	if !ok {
		return policy.Head{Bucket: bucket, Window: math.MaxUint32, Index: math.MaxUint32}, policy.Work{}
	}
	return policy.Head{Bucket: bucket, Window: uint32(p.Window), Index: uint32(p.Index)}, s.run.Work(p)
}
