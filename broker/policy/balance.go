package policy

import "math"

// Stock is one bucket as the balance sees it.
type Stock struct {
	Limits Limits
	Open   int // roots taken and not committed, whatever has become of them
	Within int // batches planned for the windows that may be published
	Left   int // batches not taken yet, of the rest of the run; only whether there are any matters
}

// Balance returns the pull limit that each bucket should have: where the poorest bucket stands, of the batches that may be
// open, and a window's worth beyond. The poorest is the one of which the smallest share has been taken; a bucket that
// has nothing left to take is not asked. So no bucket runs further ahead of the others' stock than one window, none
// is held below its floor, and the poorest can always be taken.
func Balance(stocks []Stock) []int {
	poorest := 1.0
	for _, s := range stocks {
		if s.Within > 0 && s.Left > 0 {
			poorest = min(poorest, float64(s.Open)/float64(s.Within))
		}
	}
	limits := make([]int, len(stocks))
	for i, s := range stocks {
		limits[i] = s.Limits.Clamp(int(math.Ceil(poorest*float64(s.Within))) + s.Limits.Floor)
	}
	return limits
}

// patience is for how many looks in a row a lower limit must be wanted.
const patience = 4

// Actuator moves one bucket's pull limit: up at once, down to the largest limit that any of the last looks wanted. A
// limit that is too low starves somebody, one that is too high for a moment costs nothing, and a want that wavers
// moves nothing.
type Actuator struct {
	wants [patience]int
	looks int
}

// Move takes in what one look wants, and returns the limit to set. A limit is never lowered below the roots that are open and
// one more for each puller: so many may be taken before it is in force, and no bucket may hold more than its credit.
func (a *Actuator) Move(current, want, open, pullers int) int {
	a.wants[a.looks%patience] = want
	a.looks++
	if want >= current || a.looks < patience {
		return max(current, want)
	}
	most := open + pullers
	for _, w := range a.wants {
		most = max(most, w)
	}
	return min(current, most)
}
