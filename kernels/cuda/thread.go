//go:build cuda

package cuda

import (
	"fmt"
	"runtime"
	"time"
)

// queued is how far the caller may run ahead of the thread, in ops.
const queued = 1024

// thread is the operating system thread that owns a context. Jobs run in order.
type thread struct {
	jobs chan job
	done chan struct{}
	err  error // the first failure; the thread's own
	last *call // the latest op given to the driver; the thread's own

	tick <-chan time.Time // when to look, with no job; the thread's own
	look func()
}

// call names an op and its operands for error messages. Formatting waits until there is an error.
type call struct {
	op       string
	operands []any
}

func (c *call) String() string {
	s := c.op
	for _, o := range c.operands {
		s += fmt.Sprintf(" %v", o)
	}
	return s
}

// job is one entry of the queue. Of call and reply one is set.
type job struct {
	run   func() error
	call  *call
	reply chan error
}

func newThread() *thread {
	t := &thread{jobs: make(chan job, queued), done: make(chan struct{})}
	go t.loop()
	return t
}

func (t *thread) loop() {
	runtime.LockOSThread() // never unlocked: the thread, whose context is current, ends with the goroutine
	defer close(t.done)
	for j, ok := t.next(); ok; j, ok = t.next() {
		t.do(j)
	}
}

// next waits for a job, and looks now and then while there is none: a full queue is not held up by that.
func (t *thread) next() (j job, ok bool) {
	select {
	case j, ok = <-t.jobs:
		return j, ok
	default:
	}
	for {
		select {
		case j, ok = <-t.jobs:
			return j, ok
		case <-t.tick:
			t.look()
		}
	}
}

func (t *thread) do(j job) {
	if j.reply != nil {
		j.reply <- explain(j.run())
		return
	}
	if t.err != nil {
		return
	}
	t.last = j.call
	if err := j.run(); err != nil {
		t.err = fmt.Errorf("%v: %w", j.call, explain(err))
	}
}

// enqueue runs f later, unless an op before it fails.
func (t *thread) enqueue(c *call, f func() error) { t.jobs <- job{run: f, call: c} }

// wait runs f after all that was enqueued and returns its error, which is not kept.
func (t *thread) wait(f func() error) error {
	reply := make(chan error, 1)
	t.jobs <- job{run: f, reply: reply}
	return <-reply
}

// end lets the queue run dry and ends the thread.
func (t *thread) end() {
	close(t.jobs)
	<-t.done
}
