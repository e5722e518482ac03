package draft

import "slices"

// recentWindows is over how many windows a run's final loss and cross-entropy are averaged.
const recentWindows = 50

// recent are the figures of the last windows, the oldest first.
type recent struct{ Losses, CrossEntropies []float64 }

// join returns r followed by o, as far as it is recent. It shares no memory with them.
func (r recent) join(o recent) recent {
	last := func(a, b []float64) []float64 {
		list := slices.Concat(a, b)
		return list[max(0, len(list)-recentWindows):]
	}
	return recent{last(r.Losses, o.Losses), last(r.CrossEntropies, o.CrossEntropies)}
}

// mean is 0 for nothing.
func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(max(1, len(list)))
}
