package worker

import (
	"context"
	"sync"
	"time"
)

// Keeper marks what this process holds as in progress, so that it is not delivered again while it is worked on.
// It is safe for concurrent use.
type Keeper struct {
	mark  func(ackSubject string) error
	every time.Duration
	mu    sync.Mutex
	held  map[string]int
}

func newKeeper(mark func(string) error, every time.Duration) *Keeper {
	return &Keeper{mark: mark, every: every, held: map[string]int{}}
}

// Hold begins to mark the message behind an acknowledge subject. Each Hold needs its Drop.
func (k *Keeper) Hold(ackSubject string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[ackSubject]++
}

// Drop ends what one Hold began.
func (k *Keeper) Drop(ackSubject string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[ackSubject]--; k.held[ackSubject] <= 0 {
		delete(k.held, ackSubject)
	}
}

func (k *Keeper) run(ctx context.Context) error {
	tick := time.NewTicker(k.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, s := range k.list() {
				_ = k.mark(s) // a mark that is lost is repeated at the next tick, long before AckWait ends
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (k *Keeper) list() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]string, 0, len(k.held))
	for s := range k.held {
		out = append(out, s)
	}
	return out
}
