package reduce

import (
	"context"
	"errors"
	"time"

	"penstock/kernels"
	"penstock/kernels/mem"
)

// slowPoll is how often the others' words are looked at where nothing happens.
const slowPoll = 500 * time.Microsecond

// mostSections is how many a word can count.
const mostSections = 255

// ahead is a sum that begins before the parts are brought. A member counts in its word the sections that are ready; one that
// all members count is summed. So every member makes the same calls, and no device waits in one for what another has yet to
// compute. What is summed when the last part is brought stands if all members say that they have brought just that.
//
// A goroutine of its own runs it, which alone uses the communicator until it has ended, and closes it if it fails.
type ahead struct {
	round    Round
	sections []kernels.Tensor
	comm     kernels.Comm
	views    []*mem.View // of the other members
	tell     func(s stage, sections int)
	cancel   context.CancelCauseFunc

	given  int                                      // sections that are ready, or will be with their marks
	void   bool                                     // the part will be another
	marks  chan func(context.Context) (bool, error) // closed when no more will be ready
	told   chan struct{}                            // closed once the word counts all that is given, and more will not come
	done   chan struct{}                            // closed when it has ended
	err    error                                    // with which it has
	closed error                                    // of closing the communicator then
}

var errVain = errors.New("the sum was begun in vain")

// Begin implements [Early].
func (c *Collective) Begin(ctx context.Context, r Round, parts []Part, sections []kernels.Tensor) bool {
	if c.comm == nil || c.ahead != nil || c.epoch != [2]uint32{r.Gen, r.Epoch} || len(sections) > mostSections {
		return false
	}
	a := &ahead{round: r, sections: sections, comm: c.comm, marks: make(chan func(context.Context) (bool, error), len(sections)),
		told: make(chan struct{}), done: make(chan struct{}),
		tell: func(s stage, n int) { c.slab.SetGeneration(0, uint64(r.word(s, n))) }}
	for _, p := range parts {
		if p.Member == c.self {
			continue
		}
		v, err := c.view(ctx, p.Member)
		if err != nil {
			return false
		}
		a.views = append(a.views, v)
	}
	c.ahead = a
	ctx, a.cancel = context.WithCancelCause(ctx)
	go a.run(ctx)
	return true
}

// Ready implements [Early].
func (c *Collective) Ready() {
	if a := c.ahead; a != nil {
		a.given++
		a.marks <- a.comm.Mark()
	}
}

// Void implements [Early].
func (c *Collective) Void() {
	if c.ahead != nil {
		c.ahead.void = true
	}
}

// settle says that no more sections will be ready, and returns once the word counts those that are, or with the failure before.
func (a *ahead) settle() error {
	close(a.marks)
	select {
	case <-a.told:
		return nil
	case <-a.done:
		return a.err
	}
}

// finish waits for the end, which comes when all members have brought their parts.
func (a *ahead) finish(ctx context.Context) error {
	select {
	case <-a.done:
		a.cancel(nil)
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// whole says whether what was let be summed is the part.
func (a *ahead) whole() bool { return a != nil && !a.void && a.given == len(a.sections) }

// count is how many sections may be summed.
func (a *ahead) count() int {
	if a == nil {
		return 0
	}
	return a.given
}

func (a *ahead) run(ctx context.Context) {
	defer close(a.done)
	ctx, end := inUnison(ctx, a.round, a.views)
	defer end()
	if a.err = a.sum(ctx); a.err != nil {
		a.tell(parted, 0)
		a.closed = a.comm.Close()
	}
}

// sum enqueues the sums of the sections that all members count, until all have brought their parts.
func (a *ahead) sum(ctx context.Context) error {
	own, begun, marks, told := 0, 0, a.marks, false
	var mark func(context.Context) (bool, error)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for poll := minPoll; ; poll = min(2*poll, slowPoll) {
		if mark != nil {
			reached, err := mark(ctx)
			if err != nil {
				return err
			}
			if reached {
				own, mark, poll = own+1, nil, minPoll
				a.tell(early, own)
			}
		}
		if marks == nil && !told {
			told = true
			close(a.told)
		}
		least, final := a.others()
		for ; begun < min(own, least); begun++ {
			a.comm.AllReduce(a.sections[begun], a.sections[begun])
			poll = minPoll
		}
		if final && told {
			return nil
		}
		next := marks
		if mark != nil {
			next = nil
		}
		timer.Reset(poll)
		select {
		case m, more := <-next:
			if mark = m; !more {
				marks = nil
			}
		case <-timer.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// others returns how many sections all other members count, and whether they will not count more.
func (a *ahead) others() (least int, final bool) {
	least, final = len(a.sections), true
	for _, v := range a.views {
		w, _ := v.Generation(0) // 0 of one that has ended
		at, sections := word(w).at(a.round)
		least, final = min(least, sections), final && at >= brought
	}
	return least, final
}
