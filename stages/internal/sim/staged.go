package sim

import (
	"context"
	"fmt"

	"penstock/stages/internal/account"
	"penstock/stages/internal/counter"
)

// staged is the policy fifo-staged: batches in the order of a shuffle, captures packed by the target's own device and
// copied to one queue in host memory, from which each drafter fetches and concatenates before its step. There are no
// windows, and epochs run into each other: what has been trained is written down a window's worth at a time, and held
// against the shares of the whole run.
type staged struct {
	*world
	order []*batch
	queue []*batch
	full  []*instance // targets that wait for room, with what they have packed
	done  []*batch    // trained, of the window's worth in progress
	left  int
	mix   mix
}

// runStaged runs the policy to the end of the plan.
func runStaged(ctx context.Context, w *world) error {
	if w.s.Staged.Queue < 1 {
		return fmt.Errorf("policy %s needs staged.queue in the scenario", Old)
	}
	if len(w.s.Crashes) > 0 {
		return fmt.Errorf("policy %s does not survive crashes: take them out of the scenario", Old)
	}
	o := &staged{world: w, order: append([]*batch(nil), w.batches...), left: len(w.batches)}
	w.allocated = 0
	for _, b := range w.batches {
		o.mix.count(b, len(w.buckets))
	}
	counter.New(w.s.Seed, arrivalStream).Shuffle(len(o.order), func(i, j int) { o.order[i], o.order[j] = o.order[j], o.order[i] })
	for o.settle(); o.left > 0; o.settle() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !w.step() {
			return fmt.Errorf("stalled at %.1f s with %d batches left", w.now, o.left)
		}
	}
	for _, i := range w.all() {
		i.enter("", -1)
	}
	return nil
}

func (o *staged) settle() {
	for _, t := range o.targets {
		if t.batch == nil {
			o.produce(t)
		}
	}
	for _, r := range o.ranks {
		if r.batch == nil {
			o.consume(r)
		}
	}
}

// produce forwards and packs the next batch on one target, then puts it into the queue.
func (o *staged) produce(t *instance) {
	if len(o.order) == 0 {
		t.idle(account.NoInput)
		return
	}
	b := o.order[0]
	o.order = o.order[1:]
	t.batch = b
	b.at.published, b.at.taken = o.now, o.now
	t.enter(account.Compute, b.bucket)
	slow := o.s.Factor(t.name, o.now)
	t.dev.start(b.forward*o.s.ForwardNoise(b.Index, 0)*slow, func() {
		b.at.captured = o.now
		t.enter(account.Copy, b.bucket)
		t.dev.start(o.s.Staged.Pack*b.work.Tokens/float64(o.s.Batch)*slow, func() {
			o.hold(b.bytes)
			if len(o.queue) >= o.s.Staged.Queue {
				t.idle(account.NoSlot)
				o.full = append(o.full, t)
				return
			}
			o.queue = append(o.queue, b)
			t.batch = nil
		})
	})
}

// consume fetches the first batch of the queue and trains it on one rank.
func (o *staged) consume(r *instance) {
	if len(o.queue) == 0 {
		r.idle(account.NoInput)
		return
	}
	b := o.queue[0]
	o.queue = o.queue[1:]
	if len(o.full) > 0 {
		t := o.full[0]
		o.full = o.full[1:]
		o.queue = append(o.queue, t.batch)
		t.batch = nil
		o.produce(t)
	}
	r.batch = b
	b.at.claimed = o.now
	r.enter(account.Copy, b.bucket)
	fetch := o.s.Fetch(b.Index) * b.work.Tokens / float64(o.s.Batch)
	o.after(fetch, func() {
		o.hold(-b.bytes)
		b.at.fetched = o.now
		r.enter(account.Compute, b.bucket)
		r.dev.start(b.step*o.s.StepNoise(b.Index, 0)*o.s.Factor(r.name, o.now), func() {
			r.batch = nil
			b.at.stepped = o.now
			o.left--
			if o.done = append(o.done, b); len(o.done) == o.s.Window.Batches || o.left == 0 {
				o.committed(o.done, &o.mix)
				o.done = nil
			}
		})
	})
}
