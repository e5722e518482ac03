package policy

import "fmt"

// Publishable reports whether the builder may publish window w when next is the first window that has not committed.
func Publishable(w, next, lookahead uint32) bool { return w <= next+lookahead }

// Limits are the bounds within which a bucket's pull limit moves.
type Limits struct {
	Floor   int // most batches of the bucket in any one window
	Ceiling int // most batches of it in any lookahead+1 consecutive windows
}

// Bounds computes the limits of one bucket from its batches per window, in window order.
func Bounds(perWindow []int, lookahead int) Limits {
	var l Limits
	sum := 0
	for w, n := range perWindow {
		l.Floor = max(l.Floor, n)
		sum += n
		if w > lookahead {
			sum -= perWindow[w-lookahead-1]
		}
		l.Ceiling = max(l.Ceiling, sum)
	}
	return l
}

// Clamp moves a wanted pull limit into the bounds; a bucket with nothing planned keeps one.
func (l Limits) Clamp(want int) int { return max(1, l.Floor, min(want, l.Ceiling)) }

// Sufficient checks that slots can cover the rules: each pool needs one slot for the oldest window and one more,
// or a later window could never run ahead.
func Sufficient(pool string, slots int) error {
	if slots < 2 {
		return fmt.Errorf("pool %s has %d slot; it needs 2: one is kept for the oldest open window", pool, slots)
	}
	return nil
}

// Cover checks that a bucket's pull limit can cover a window: below the floor, some window could not be taken whole, so
// it would never commit. A limit of -1 is none.
func (l Limits) Cover(bucket string, limit int) error {
	if limit >= 0 && limit < max(1, l.Floor) {
		return fmt.Errorf("bucket %s has a pull limit of %d; it needs at least %d, the most of its batches in one window, or that window could never commit",
			bucket, limit, max(1, l.Floor))
	}
	return nil
}

// CoverSlots checks that as many hops may be parked as there are slots over all pools: a hop that cannot be delivered
// would keep its slot for ever. A limit of -1 is none.
func CoverSlots(hop string, limit, slots int) error {
	if limit >= 0 && limit < slots {
		return fmt.Errorf("hop %s may have %d records in progress; it needs %d, one for every slot of all pools, or parked batches could block the oldest window",
			hop, limit, slots)
	}
	return nil
}

// CoverRanks checks that a window has work for every rank.
func CoverRanks(batches, ranks int) error {
	if batches < ranks {
		return fmt.Errorf("a window of %d batches cannot feed %d ranks: window.batches must be at least draft.ranks", batches, ranks)
	}
	return nil
}
