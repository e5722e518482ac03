package sim

import "math"

// measured is what is written down while a simulation runs.
type measured struct {
	held      float64 // bytes of captures in slots or queues
	allocated float64 // bytes of all slots
	holding   []point // bytes held over time
	commits   []mark
	trained   []int // batches by bucket, committed
	redone    int
}

// point is a value from a time on.
type point struct{ at, value float64 }

// mark is a committed window.
type mark struct {
	at     float64
	tokens int     // over the run so far
	error  float64 // of the mix: the most by which the window, or all so far, is off a bucket's share, in batches
}

// hold counts bytes that are taken, or given back.
func (w *world) hold(bytes float64) {
	w.held += bytes
	if n := len(w.holding); n > 0 && w.holding[n-1].at == w.now {
		w.holding[n-1].value = w.held
		return
	}
	w.holding = append(w.holding, point{w.now, w.held})
}

// committed writes down that a window has been trained, and how well its buckets are mixed.
func (w *world) committed(list []*batch) {
	if w.trained == nil {
		w.trained = make([]int, len(w.buckets))
	}
	m := mark{at: w.now}
	if n := len(w.commits); n > 0 {
		m.tokens = w.commits[n-1].tokens
	}
	window := make([]int, len(w.buckets))
	for _, b := range list {
		window[b.bucket]++
		m.tokens += b.Tokens
	}
	done := 0
	for i, n := range window {
		w.trained[i] += n
		done += w.trained[i]
	}
	for i := range w.buckets {
		share := float64(w.buckets[i].planned) / float64(len(w.batches))
		off := math.Abs(float64(window[i]) - share*float64(len(list)))
		off = max(off, math.Abs(float64(w.trained[i])-share*float64(done)))
		m.error = max(m.error, off)
	}
	w.commits = append(w.commits, m)
}

// steady is the time between the first windows and the last, in which every stage could work all the time.
func (w *world) steady() (from, to mark) {
	n := len(w.commits)
	first, last := max(w.s.Window.Lookahead+1, n/10), n-w.s.Window.Lookahead-2
	if last-first < 3 {
		return mark{}, w.commits[n-1]
	}
	return w.commits[first], w.commits[last]
}

// within is how long a span lasts between two times.
func (s span) within(from, to float64) float64 { return max(0, min(s.to, to)-max(s.from, from)) }
