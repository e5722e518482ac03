// Package team shares loops among a fixed set of goroutines.
package team

import (
	"sync"
	"sync/atomic"
)

// spins is how often a waiting goroutine looks, pausing in between, before it sleeps: for about as long as being woken
// takes, so that loops in close succession wake nobody, and one that comes late costs at most twice its waking. It
// does not yield its processor to the scheduler, which would give it another, away from its data.
const spins = 1000

// Team is the caller and threads-1 goroutines that wait for loops. It serves one caller at a time; a loop body must
// not start another loop. A nil Team runs loops on the caller alone.
//
// Each goroutine begins with the same part of every loop, so that loops over the same rows find their data in its
// processor's cache; who is done helps the others.
type Team struct {
	members sync.WaitGroup

	// The loop: set before seats, read by those who took a seat.
	fn    func(i int)
	parts []part // of each goroutine, the caller's first
	used  int    // how many of them the loop has

	seats    atomic.Int64 // how many more may join the loop
	finished atomic.Int64 // how many that joined are done
	closed   atomic.Bool
	idle     sleepers // members that wait for seats
	caller   sleepers // Run, while it waits for members
}

// part is calls [next, end) of a loop, on a cache line of its own.
type part struct {
	next atomic.Int64
	end  int64
	_    [6]int64
}

// New starts threads-1 goroutines, which end at Close.
func New(threads int) *Team {
	t := &Team{parts: make([]part, max(threads, 1))}
	t.idle.init(len(t.parts))
	t.caller.init(1)
	for i := 1; i < len(t.parts); i++ {
		t.members.Go(func() { t.member(i) })
	}
	return t
}

// Threads is the number of goroutines that share a loop, the caller included.
func (t *Team) Threads() int {
	if t == nil {
		return 1
	}
	return len(t.parts)
}

// Run calls fn(0) … fn(n-1), in any order and at the same time, and returns when all have returned.
func (t *Team) Run(n int, fn func(i int)) {
	used := min(t.Threads(), n)
	if used <= 1 {
		for i := range n {
			fn(i)
		}
		return
	}
	t.fn, t.used = fn, used
	for i := range used {
		p := &t.parts[i]
		p.next.Store(int64(i * n / used))
		p.end = int64((i + 1) * n / used)
	}
	helpers := int64(used - 1)
	t.finished.Store(0)
	t.seats.Store(helpers)
	t.idle.wake(helpers)
	t.share(0)
	joined := helpers - t.seats.Swap(0) // nobody joins any more
	t.caller.wait(func() bool { return t.finished.Load() == joined })
	t.fn = nil
}

// Close ends the goroutines and waits for them.
func (t *Team) Close() {
	if t != nil {
		t.closed.Store(true)
		t.idle.wake(int64(len(t.parts)))
		t.members.Wait()
	}
}

func (t *Team) member(i int) {
	for !t.closed.Load() {
		t.idle.wait(func() bool { return t.seats.Load() > 0 || t.closed.Load() })
		if s := t.seats.Load(); s > 0 && t.seats.CompareAndSwap(s, s-1) {
			t.share(i)
			t.finished.Add(1)
			t.caller.wake(1)
		}
	}
}

// share works off part i, then what is left of the others.
func (t *Team) share(i int) {
	for k := range t.used {
		p := &t.parts[(i+k)%t.used]
		for c := p.next.Add(1) - 1; c < p.end; c = p.next.Add(1) - 1 {
			t.fn(int(c))
		}
	}
}

// sleepers wait for a condition: first awake, then asleep. Who makes a condition true calls wake afterwards.
type sleepers struct {
	asleep atomic.Int64
	alarm  chan struct{}
}

func (s *sleepers) init(n int) { s.alarm = make(chan struct{}, n) }

// wait returns once ready is true.
func (s *sleepers) wait(ready func() bool) {
	for range spins {
		if ready() {
			return
		}
		pause()
	}
	// Counted before the last look: whoever makes it true after that look sees the count.
	s.asleep.Add(1)
	for !ready() {
		<-s.alarm
	}
	s.asleep.Add(-1)
}

// wake rouses up to n of those asleep. One alarm too many makes a sleeper look once more.
func (s *sleepers) wake(n int64) {
	for range min(n, s.asleep.Load()) {
		select {
		case s.alarm <- struct{}{}:
		default:
		}
	}
}
