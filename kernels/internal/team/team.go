// Package team shares loops among a fixed set of goroutines.
package team

import (
	"sync"
	"sync/atomic"
)

// Team is the caller and threads-1 goroutines that wait for loops. It serves one caller at a time; a loop body must
// not start another loop. A nil Team runs loops on the caller alone.
type Team struct {
	threads int
	calls   chan struct{} // one token asks one goroutine to join the loop
	members sync.WaitGroup

	fn     func(i int)
	n      int64
	next   atomic.Int64
	joined sync.WaitGroup
}

// New starts threads-1 goroutines, which end at Close.
func New(threads int) *Team {
	t := &Team{threads: max(threads, 1), calls: make(chan struct{}, max(threads, 1))}
	for range t.threads - 1 {
		t.members.Go(t.member)
	}
	return t
}

// Threads is the number of goroutines that share a loop, the caller included.
func (t *Team) Threads() int {
	if t == nil {
		return 1
	}
	return t.threads
}

// Run calls fn(0) … fn(n-1), in any order and at the same time, and returns when all have returned.
func (t *Team) Run(n int, fn func(i int)) {
	helpers := min(t.Threads(), n) - 1
	if helpers <= 0 {
		for i := range n {
			fn(i)
		}
		return
	}
	t.fn, t.n = fn, int64(n)
	t.next.Store(0)
	t.joined.Add(helpers)
	for range helpers {
		t.calls <- struct{}{}
	}
	t.share()
	for range helpers {
		select {
		case <-t.calls: // nobody was free to take it
			t.joined.Done()
		default:
		}
	}
	t.joined.Wait()
	t.fn = nil
}

// Close ends the goroutines and waits for them.
func (t *Team) Close() {
	if t != nil {
		close(t.calls)
		t.members.Wait()
	}
}

func (t *Team) member() {
	for range t.calls {
		t.share()
		t.joined.Done()
	}
}

func (t *Team) share() {
	for i := t.next.Add(1) - 1; i < t.n; i = t.next.Add(1) - 1 {
		t.fn(int(i))
	}
}
