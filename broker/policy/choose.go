package policy

import (
	"cmp"
	"slices"
	"time"
)

// Head is the root that a bucket is expected to deliver next.
type Head struct {
	Bucket string
	Window uint32
	Index  uint32
	Cost   float64       // predicted seconds, or any measure that orders batches by work
	Age    time.Duration // how long the bucket's head has been open to this puller
}

// Order is how a puller ranks the heads.
type Order struct {
	Deterministic bool          // by plan index alone
	MaxAge        time.Duration // a head older than this goes first within its window; 0 for never
}

// Choose sorts heads into the order in which they are to be tried: oldest window first; within it a head beyond the
// age limit, then the most expensive (longest processing time first), then plan order.
func (o Order) Choose(heads []Head) {
	slices.SortFunc(heads, func(a, b Head) int { return o.compare(&a, &b) })
}

// First returns the place of the head that is to be tried first, or -1 if there is none. It takes one pass.
func (o Order) First(heads []Head) int {
	if len(heads) == 0 {
		return -1
	}
	first := 0
	for i := 1; i < len(heads); i++ {
		h, best := &heads[i], &heads[first]
		if !o.Deterministic && h.Window > best.Window { // most often
			continue
		}
		if o.compare(h, best) < 0 {
			first = i
		}
	}
	return first
}

// Before reports whether a is to be tried before b.
func (o Order) Before(a, b *Head) bool { return o.compare(a, b) < 0 }

func (o Order) compare(a, b *Head) int {
	if o.Deterministic {
		return cmp.Compare(a.Index, b.Index)
	}
	if c := cmp.Compare(a.Window, b.Window); c != 0 {
		return c
	}
	if c := cmp.Compare(b.overdue(o.MaxAge), a.overdue(o.MaxAge)); c != 0 {
		return c
	}
	if c := cmp.Compare(b.Cost, a.Cost); c != 0 {
		return c
	}
	return cmp.Compare(a.Index, b.Index)
}

func (h *Head) overdue(limit time.Duration) int {
	if limit > 0 && h.Age > limit {
		return 1
	}
	return 0
}
