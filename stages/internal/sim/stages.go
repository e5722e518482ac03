package sim

import (
	"cmp"
	"slices"

	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/account"
)

// settle lets everything begin that can begin now.
func (w *world) settle() {
	w.publish()
	w.feedTargets()
	w.feedPackers()
	w.feedRanks()
}

// publish publishes the windows within the look-ahead.
func (w *world) publish() {
	for w.published < len(w.windows) && policy.Publishable(uint32(w.published), w.lineage.Next, uint32(w.s.Window.Lookahead)) {
		list := slices.Clone(w.windows[w.published])
		slices.SortFunc(list, func(a, b *batch) int { return cmp.Compare(w.roots.order(a), w.roots.order(b)) })
		for _, b := range list {
			b.at.published = w.now
			w.offer(b)
		}
		w.published++
	}
}

// offer makes a root available to the targets.
func (w *world) offer(b *batch) {
	b.state = queued
	w.handOn(b, func() { w.roots.push(w.rule.rootLine(w, b), b) }, nil)
}

// handOn does what makes a batch the next stage's, after the time that takes. If the batch is given up meanwhile, it does
// instead what void says.
func (w *world) handOn(b *batch, do, void func()) {
	if w.s.Handoff == 0 {
		do()
		return
	}
	attempt := b.attempt
	w.after(w.s.Handoff, func() {
		if b.attempt == attempt {
			do()
		} else if void != nil {
			void()
		}
	})
}

func (w *world) feedTargets() {
	for _, t := range w.targets {
		if !t.free() {
			continue
		}
		b, cause := w.rule.choose(w, t)
		if b == nil {
			t.idle(cause)
			continue
		}
		w.forward(t, b)
	}
}

// forward starts a target on a batch, which the rule has found admissible.
func (w *world) forward(t *instance, b *batch) {
	u, ok := t.take(b)
	if !ok {
		t.idle(account.NoSlot)
		return
	}
	w.roots.remove(b)
	b.state, b.capture, b.open, b.at.taken = forward, u, true, w.now
	w.buckets[b.bucket].open++
	t.batch = b
	t.enter(account.Compute, b.bucket)
	began := w.now
	seconds := b.forward * w.s.ForwardNoise(b.Index, b.attempt) * w.s.Factor(t.name, w.now)
	t.job = t.dev.start(seconds, func() {
		t.costs.Observe(b.Bucket, b.forward, w.now-began)
		t.batch = nil
		b.at.captured = w.now
		w.handOn(b, func() {
			b.state = captured
			at, _ := slices.BinarySearchFunc(w.hops, b, func(x, y *batch) int { return cmp.Compare(x.Index, y.Index) })
			w.hops = slices.Insert(w.hops, at, b)
		}, nil)
	})
}

func (w *world) feedPackers() {
	for _, p := range w.packers {
		if !p.free() {
			continue
		}
		at := w.hop(p)
		switch {
		case at >= 0:
			w.pack(p, at)
		case len(w.hops) > 0:
			p.idle(account.NoSlot)
		default:
			p.idle(account.NoInput)
		}
	}
}

// hop is the place of the hop that a packer takes: of the oldest window that has any, one of its own host first, and of those the
// one that is most expensive to the ranks. It is -1 if there is none that may take a slot.
func (w *world) hop(p *instance) int {
	if len(w.hops) == 0 || !w.reserve.Admit(uint32(w.hops[0].Window), p.pool.Free()) {
		return -1
	}
	best := 0
	near := func(i int) bool { return w.hops[i].capture.of.host == p.host }
	for i, b := range w.hops {
		if b.Window != w.hops[0].Window {
			break
		}
		if near(i) && !near(best) || near(i) == near(best) && b.step > w.hops[best].step {
			best = i
		}
	}
	return best
}

// pack starts a packer on a hop.
func (w *world) pack(p *instance, at int) {
	b := w.hops[at]
	u, ok := p.take(b)
	if !ok {
		return
	}
	w.hops = slices.Delete(w.hops, at, at+1)
	b.state, b.packed, b.at.pulled = copying, u, w.now
	p.batch = b
	p.enter(account.Copy, b.bucket)
	lives, attempt := p.lives, b.attempt
	w.after(w.times.Pack(b.work, b.capture.of.host != p.host), func() {
		if p.lives != lives {
			return
		}
		p.batch = nil
		if b.attempt != attempt { // the captures' owner died meanwhile
			u.release(b)
			return
		}
		b.at.packed = w.now
		w.handOn(b, func() {
			b.capture.release(b)
			b.state = packed
			w.ready.push(w.rule.readyLine(w, b), b)
		}, func() { u.release(b) })
	})
}

func (w *world) feedRanks() {
	if w.committing {
		return
	}
	for _, r := range w.ranks {
		if !r.free() {
			continue
		}
		if b := w.rule.claim(w, r); b != nil {
			w.train(r, b)
			continue
		}
		r.idle(w.waiting())
	}
}

// waiting is what a rank without work waits for: the window, once all of it is being worked on, or else input.
func (w *world) waiting() string {
	if int(w.lineage.Next) == len(w.windows) {
		return account.NoInput
	}
	for _, b := range w.windows[w.lineage.Next] {
		if b.state < training {
			return account.NoInput
		}
	}
	return account.Window
}

// train starts a rank on a batch of the open window.
func (w *world) train(r *instance, b *batch) {
	w.ready.remove(b)
	w.claims++
	b.state, b.rank, b.at.claimed, b.at.fetched = training, r, w.now, w.now
	w.apply(schema.Claim{Batch: w.record(b), Rank: r.name, Incarnation: r.incarnation(), RankEpoch: w.lineage.Epoch})
	r.batch = b
	r.enter(account.Compute, b.bucket)
	began := w.now
	seconds := b.step * w.s.StepNoise(b.Index, b.attempt) * w.s.Factor(r.name, w.now)
	r.job = r.dev.start(seconds, func() {
		r.costs.Observe(b.Bucket, b.step, w.now-began)
		r.batch = nil
		r.idle(account.Window)
		b.at.stepped = w.now
		lives := r.lives
		w.handOn(b, func() {
			if r.lives != lives {
				return
			}
			b.state = added
			w.apply(schema.Added{Batch: w.record(b), Rank: r.name, Incarnation: r.incarnation(), RankEpoch: w.lineage.Epoch})
			b.packed.release(b)
			w.complete()
		}, nil)
	})
}

// complete commits the open window if each of its batches is added.
func (w *world) complete() {
	n := w.lineage.Next
	added, _, ok := w.lineage.Complete(n, w.ids[n])
	if !ok {
		return
	}
	w.committing = true
	if w.s.Draft.Optimizer == 0 {
		w.commit(added)
		return
	}
	for _, r := range w.ranks {
		if !r.down {
			r.enter(account.Step, -1)
		}
	}
	w.after(w.s.Draft.Optimizer, func() { w.commit(added) })
}

// commit closes the open window: its roots are acknowledged, and the next window may be worked on.
func (w *world) commit(added []uint32) {
	n := w.lineage.Next
	w.apply(schema.Commit{Gen: 1, Window: n, Batches: added})
	for _, b := range w.windows[n] {
		if b.open {
			b.open = false
			w.buckets[b.bucket].open--
		}
	}
	w.committing = false
	w.committed(w.windows[n], &w.mixes[w.windows[n][0].Epoch])
}
