// Package team shares loops among a fixed set of goroutines.
package team

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A goroutine that waits looks often, yields its processor between looks, and in the end sleeps. Until then it takes
// about as long as being woken would, so that loops in close succession wake nobody, and one that comes late costs at
// most twice its waking.
const (
	yields = 200
	looks  = 20 // before each
)

// Team is the caller and threads-1 goroutines that wait for loops. It serves one caller at a time; a loop body must
// not start another loop. A nil Team runs loops on the caller alone.
type Team struct {
	threads int
	members sync.WaitGroup

	// The loop: set before seats, read by those who took a seat.
	fn   func(i int)
	n    int64
	next atomic.Int64

	seats    atomic.Int64 // how many more may join the loop
	finished atomic.Int64 // how many that joined are done
	closed   atomic.Bool
	idle     sleepers // members that wait for seats
	caller   sleepers // Run, while it waits for members
}

// New starts threads-1 goroutines, which end at Close.
func New(threads int) *Team {
	t := &Team{threads: max(threads, 1)}
	t.idle.init(t.threads)
	t.caller.init(1)
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
	helpers := int64(min(t.Threads(), n) - 1)
	if helpers <= 0 {
		for i := range n {
			fn(i)
		}
		return
	}
	t.fn, t.n = fn, int64(n)
	t.next.Store(0)
	t.finished.Store(0)
	t.seats.Store(helpers)
	t.idle.wake(helpers)
	t.share()
	joined := helpers - t.seats.Swap(0) // nobody joins any more
	t.caller.wait(func() bool { return t.finished.Load() == joined })
	t.fn = nil
}

// Close ends the goroutines and waits for them.
func (t *Team) Close() {
	if t != nil {
		t.closed.Store(true)
		t.idle.wake(int64(t.threads))
		t.members.Wait()
	}
}

func (t *Team) member() {
	for !t.closed.Load() {
		t.idle.wait(func() bool { return t.seats.Load() > 0 || t.closed.Load() })
		if s := t.seats.Load(); s > 0 && t.seats.CompareAndSwap(s, s-1) {
			t.share()
			t.finished.Add(1)
			t.caller.wake(1)
		}
	}
}

func (t *Team) share() {
	for i := t.next.Add(1) - 1; i < t.n; i = t.next.Add(1) - 1 {
		t.fn(int(i))
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
	for range yields {
		for range looks {
			if ready() {
				return
			}
		}
		runtime.Gosched()
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
