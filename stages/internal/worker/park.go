package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
)

// Hop is a delivered hop in this process's hands.
type Hop = *broker.Delivery[schema.Hop]

// Park keeps hops that were delivered and are not worked on yet: un-acknowledged, marked as in progress, in the order
// of window and plan index. It is safe for concurrent use.
type Park struct {
	keeper *Keeper
	mu     sync.Mutex
	hops   []Hop
	came   chan struct{}
}

// NewPark returns an empty park that marks its hops through keeper.
func NewPark(keeper *Keeper) *Park { return &Park{keeper: keeper, came: make(chan struct{}, 1)} }

// Add takes a hop in. It wakes whoever waits on Came.
func (p *Park) Add(h Hop) {
	p.keeper.Hold(h.AckSubject)
	p.Return(h)
}

// Return puts back a hop that was taken.
func (p *Park) Return(h Hop) {
	p.mu.Lock()
	at, _ := slices.BinarySearchFunc(p.hops, h, compareHops)
	p.hops = slices.Insert(p.hops, at, h)
	p.mu.Unlock()
	p.Wake()
}

// Wake has Came receive, for another goroutine to look.
func (p *Park) Wake() {
	select {
	case p.came <- struct{}{}:
	default:
	}
}

// Came receives when a hop was added since the last receive.
func (p *Park) Came() <-chan struct{} { return p.came }

// Take removes and returns the first hop that may holds for. Its mark stays until Done.
func (p *Park) Take(may func(schema.Hop) bool) (Hop, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, h := range p.hops {
		if may(h.Record) {
			p.hops = slices.Delete(p.hops, i, i+1)
			return h, true
		}
	}
	return nil, false
}

// Choose is Take in another order than the park's: that of the policy, by predicted cost.
func (p *Park) Choose(order policy.Order, cost func(schema.Hop) float64, may func(schema.Hop) bool) (Hop, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, first := -1, policy.Head{}
	for i, h := range p.hops {
		if r := h.Record; may(r) {
			x := policy.Head{Bucket: r.Bucket, Window: r.Window, Index: r.Index, Cost: cost(r)}
			if at < 0 || order.Before(&x, &first) {
				at, first = i, x
			}
		}
	}
	if at < 0 {
		return nil, false
	}
	h := p.hops[at]
	p.hops = slices.Delete(p.hops, at, at+1)
	return h, true
}

// Spare removes and returns a hop for which may holds and which the policy has handed back when so many are kept; its mark
// stays until it is dropped.
func (p *Park) Spare(keep int, may, near func(schema.Hop) bool) (Hop, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var own []bool
	var at []int
	for i, h := range p.hops {
		if may(h.Record) {
			own, at = append(own, near(h.Record)), append(at, i)
		}
	}
	i := policy.Spare(own, keep)
	if i < 0 {
		return nil, false
	}
	h := p.hops[at[i]]
	p.hops = slices.Delete(p.hops, at[i], at[i]+1)
	return h, true
}

// Len returns the number of parked hops.
func (p *Park) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.hops)
}

// Done acknowledges a hop that was taken, and ends its mark. One that comes back is void: its slot has been released.
func (p *Park) Done(h Hop) error {
	p.keeper.Drop(h.AckSubject)
	return h.AckSoon()
}

// Leave ends the marks of everything parked: the generation is over, or the process ends.
func (p *Park) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hops {
		p.keeper.Drop(h.AckSubject)
	}
	p.hops = nil
}

func compareHops(a, b Hop) int {
	return cmp.Or(cmp.Compare(a.Record.Window, b.Record.Window), cmp.Compare(a.Record.Index, b.Record.Index))
}

// sane refuses a hop that no stage of this version writes: its names are used in subjects, and it is answered on its root.
func sane(h schema.Hop) error {
	for what, token := range map[string]string{"bucket": h.Bucket, "pool": h.Pool} {
		if err := broker.CheckToken(what, token); err != nil {
			return err
		}
	}
	if !strings.HasPrefix(h.Root, "$JS.ACK."+broker.Fwd.Stream+".") {
		return fmt.Errorf("root %q is no acknowledge subject of %s", h.Root, broker.Fwd.Stream)
	}
	return broker.CheckAck(h.Root)
}

// Receive parks what a source delivers until ctx ends or the source does. ready is waited on before each pull, so that a
// process without room leaves the hop to another.
func (p *Park) Receive(ctx context.Context, s *broker.Source[schema.Hop], ready func(context.Context) error) error {
	for {
		if err := ready(ctx); err != nil {
			return err
		}
		h, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if err := sane(h.Record); err != nil {
			if err := h.Term(ctx, err.Error()); err != nil && !errors.Is(err, broker.ErrGone) {
				return err
			}
			continue
		}
		p.Add(h)
	}
}
