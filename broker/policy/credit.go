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
