package sim

import (
	"fmt"
	"slices"
	"strings"

	"penstock/broker/policy"
	"penstock/stages/internal/account"
)

// rule is a way to dispatch. All rules share windows, slots, the reservation and asynchronous packing, so that what differs
// is who works on what, and when.
type rule interface {
	begin(w *world)
	rootLine(w *world, b *batch) int  // in which line a published root waits
	readyLine(w *world, b *batch) int // in which line a packed batch waits
	// choose returns the root that a free target forwards, or the cause of its waiting.
	choose(w *world, t *instance) (*batch, string)
	// claim returns the batch of the open window that a free rank trains, or nil.
	claim(w *world, r *instance) *batch
}

// Ours is the policy of the product.
const Ours = "penstock"

// Old is the policy of a pipeline with one queue in host memory.
const Old = "fifo-staged"

// Policies lists the policies.
func Policies() []string {
	return []string{Ours, Old, "shortest-queue", "round-robin", "longest-queue-first", "fifo"}
}

func newRule(name string) (rule, error) {
	switch name {
	case Ours:
		return &penstock{}, nil
	case "shortest-queue":
		return &pushed{}, nil
	case "round-robin":
		return &pushed{turns: true}, nil
	case "longest-queue-first":
		return &shared{longest: true}, nil
	case "fifo":
		return &shared{}, nil
	}
	return nil, fmt.Errorf("policy %q is unknown: choose one of %s", name, strings.Join(Policies(), ", "))
}

// penstock is the product's: buckets, oldest window first, most expensive first within it, by predicted cost corrected by
// measured times; pull limits that move; ranks that leave what others would complete sooner.
type penstock struct {
	heads  []policy.Head
	others []policy.Load
}

func (p *penstock) begin(w *world) {
	w.roots.order, w.ready.order = planOrder, planOrder
	w.look()
}

func (p *penstock) rootLine(_ *world, b *batch) int  { return b.bucket }
func (p *penstock) readyLine(_ *world, b *batch) int { return b.bucket }

func (p *penstock) choose(w *world, t *instance) (*batch, string) {
	p.heads = p.heads[:0]
	var refused refusals
	for i, line := range w.roots.lines {
		if len(line) > 0 && refused.may(w, t, line[0]) {
			p.heads = append(p.heads, w.head(t, line[0], w.buckets[i].name, line[0].forward+line[0].step))
		}
	}
	if i := (policy.Order{}).First(p.heads); i >= 0 {
		return w.batches[p.heads[i].Index], ""
	}
	return nil, refused.cause(w)
}

// claim corrects one cost a bucket: by its instance's correction, all batches of a bucket take so many times longer.
func (p *penstock) claim(w *world, r *instance) *batch {
	p.heads = p.heads[:0]
	ready := 0
	for i, line := range w.ready.lines {
		var best *batch
		for _, b := range line { // in plan order
			if uint32(b.Window) != w.lineage.Next {
				break
			}
			ready++
			if best == nil || (policy.Order{}).Before(&b.head, &best.head) {
				best = b
			}
		}
		if best != nil {
			p.heads = append(p.heads, w.head(r, best, w.buckets[i].name, best.step))
		}
	}
	i := (policy.Order{}).First(p.heads)
	if i < 0 {
		return nil
	}
	b := w.batches[p.heads[i].Index]
	if !p.takes(w, r, b, ready) {
		return nil
	}
	return b
}

// takes says whether a rank takes a batch of those that are ready, or leaves it to others for now.
func (p *penstock) takes(w *world, r *instance, b *batch, ready int) bool {
	p.others = p.others[:0]
	for _, o := range w.ranks {
		if o != r && !o.down {
			p.others = append(p.others, o.load(b.step))
		}
	}
	take, wait := r.deference.Take(w.now, r.load(b.step), p.others, ready, w.claims)
	if take {
		r.deference.Taken()
	} else {
		w.after(wait, func() {})
	}
	return take
}

// load is what a rank has in hand, and its cost of a batch that it is predicted to take so many seconds for.
func (i *instance) load(step float64) policy.Load {
	l := policy.Load{Cost: step * i.costs.Pace(), Beside: i.beside}
	if i.batch != nil {
		l.Hand, l.Since = 1, i.w.now-i.batch.at.claimed
	}
	return l
}

// head is a batch as an instance weighs it.
func (w *world) head(i *instance, b *batch, bucket string, cost float64) policy.Head {
	return policy.Head{Bucket: bucket, Window: uint32(b.Window), Index: uint32(b.Index), Cost: i.costs.Seconds(bucket, cost)}
}

// look moves the pull limits, again and again.
func (w *world) look() {
	stocks := make([]policy.Stock, len(w.buckets))
	first := int(w.lineage.Next)
	last := first + w.s.Window.Lookahead
	for i := range w.buckets {
		b := &w.buckets[i]
		stocks[i] = policy.Stock{Limits: b.limits, Open: b.open, Within: w.plan.InWindows(b.name, first, last)}
		if i < len(w.roots.lines) {
			stocks[i].Left = len(w.roots.lines[i])
		}
		if _, later := w.plan.Next(b.name, last+1, 0); later {
			stocks[i].Left++
		}
	}
	moved := false
	for i, want := range policy.Balance(stocks) {
		b := &w.buckets[i]
		if limit := b.actuator.Move(b.limit, want, b.open, len(w.targets)); limit != b.limit {
			b.limit = limit
			b.moves++
			moved = true
		}
	}
	if moved || len(w.due) > 0 || w.now == 0 {
		w.after(w.s.Look, w.look)
	}
}

// refusals are the reasons for which heads may not be taken.
type refusals struct{ credit, slot bool }

// may reports whether a target may take a root: its bucket has credit, and the pool a slot for it.
func (r *refusals) may(w *world, t *instance, b *batch) bool {
	if k := &w.buckets[b.bucket]; k.open >= k.limit {
		r.credit = true
		return false
	}
	if !w.reserve.Admit(uint32(b.Window), t.pool.Free()) {
		r.slot = true
		return false
	}
	return true
}

// cause is why a target waits.
func (r *refusals) cause(w *world) string {
	switch {
	case r.slot:
		return account.NoSlot
	case r.credit:
		return account.NoCredit
	case w.published < len(w.windows):
		return account.Window
	}
	return account.NoInput
}

// shared is one pool of work that free instances take from: the batch that came first, or the first one of the bucket
// of which most wait.
type shared struct{ longest bool }

func (s *shared) begin(w *world) { w.roots.order, w.ready.order = arrivalOrder, arrivalOrder }

func (s *shared) rootLine(_ *world, b *batch) int  { return b.bucket }
func (s *shared) readyLine(_ *world, b *batch) int { return b.bucket }

func (s *shared) choose(w *world, t *instance) (*batch, string) {
	var refused refusals
	var best *batch
	most := 0
	for _, line := range w.roots.lines {
		if len(line) == 0 || !refused.may(w, t, line[0]) {
			continue
		}
		if s.before(line[0], len(line), best, most) {
			best, most = line[0], len(line)
		}
	}
	return best, refused.cause(w)
}

func (s *shared) claim(w *world, r *instance) *batch {
	var best *batch
	most := 0
	for _, line := range w.ready.lines {
		n := 0
		var first *batch
		for _, b := range line {
			if uint32(b.Window) == w.lineage.Next {
				n++
				if first == nil {
					first = b
				}
			}
		}
		if first != nil && s.before(first, n, best, most) {
			best, most = first, n
		}
	}
	return best
}

// before reports whether a, the first of n, goes before b, the first of m.
func (s *shared) before(a *batch, n int, b *batch, m int) bool {
	if b == nil || !s.longest || n == m {
		return b == nil || a.arrival < b.arrival
	}
	return n > m
}

// pushed gives each batch to an instance as it comes: to each in turn, or to the one for which fewest wait.
type pushed struct {
	turns        bool
	roots, ready int // turns so far
}

func (p *pushed) begin(w *world) { w.roots.order, w.ready.order = arrivalOrder, arrivalOrder }

func (p *pushed) rootLine(w *world, _ *batch) int {
	return p.line(w.targets, w.roots.lines, &p.roots)
}

func (p *pushed) readyLine(w *world, _ *batch) int { return p.line(w.ranks, w.ready.lines, &p.ready) }

// line is the number of the instance that is given the next batch. Those that are down get none, unless all are.
func (p *pushed) line(to []*instance, lines [][]*batch, turn *int) int {
	best, fewest := -1, 0
	for k := range to {
		i := k
		if p.turns {
			i = (*turn + k) % len(to)
		}
		n := 0
		if i < len(lines) && !p.turns {
			n = len(lines[i])
		}
		if to[i].batch != nil && !p.turns {
			n++
		}
		if !to[i].down && (best < 0 || n < fewest) {
			best, fewest = i, n
		}
	}
	*turn++
	return max(0, best)
}

func (p *pushed) choose(w *world, t *instance) (*batch, string) {
	var refused refusals
	if t.number < len(w.roots.lines) && len(w.roots.lines[t.number]) > 0 {
		if b := w.roots.lines[t.number][0]; refused.may(w, t, b) {
			return b, ""
		}
	}
	return nil, refused.cause(w)
}

func (p *pushed) claim(w *world, r *instance) *batch {
	if r.number >= len(w.ready.lines) {
		return nil
	}
	line := w.ready.lines[r.number]
	if i := slices.IndexFunc(line, func(b *batch) bool { return uint32(b.Window) == w.lineage.Next }); i >= 0 {
		return line[i]
	}
	return nil
}
