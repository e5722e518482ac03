package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"penstock/schema"
)

// Again hands on once more what the open window waits for: a hop that was acknowledged while nobody had worked on it, or
// whose receiver nobody supervises, would keep its slot, and its root in progress, for ever. A second hop is void where the
// first was worked on. It is safe for concurrent use.
type Again struct {
	pool    *Pool
	publish func(ctx context.Context, hop schema.Hop, id string) error

	mu   sync.Mutex
	hops map[uint32]handed // by slot
}

// handed is a hop that was handed on.
type handed struct {
	hop   schema.Hop
	at    time.Time
	times int
}

// NewAgain returns one for the hops of a pool's slots.
func NewAgain(pool *Pool, publish func(ctx context.Context, hop schema.Hop, id string) error) *Again {
	return &Again{pool: pool, publish: publish, hops: map[uint32]handed{}}
}

// HandedOn takes note of a hop that was published.
func (a *Again) HandedOn(hop schema.Hop) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hops[hop.Slot] = handed{hop: hop, at: time.Now(), times: 1}
}

// Run publishes anew, until ctx ends, what has been in its slot for AckWait since it was last published, and belongs to the
// open window.
func (a *Again) Run(ctx context.Context) error {
	wait := a.pool.w.AckWait
	tick := time.NewTicker(wait / 4)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, h := range a.due(wait) {
			if err := a.publish(ctx, h.hop, fmt.Sprintf("%s-again-%d", HopID(h.hop.SlotRef), h.times)); err != nil {
				return fmt.Errorf("hand on batch %d again: %w", h.hop.Index, err)
			}
		}
	}
}

func (a *Again) due(wait time.Duration) (due []handed) {
	gen, next := a.pool.w.Ledger.Front()
	a.mu.Lock()
	defer a.mu.Unlock()
	for slot, h := range a.hops {
		switch {
		case !a.pool.uses(h.hop.SlotRef):
			delete(a.hops, slot)
		case h.hop.Gen == gen && h.hop.Window == next && time.Since(h.at) > wait:
			due = append(due, h)
			h.at, h.times = time.Now(), h.times+1
			a.hops[slot] = h
		}
	}
	return due
}
