package sim

import "math"

// measured is what is written down while a simulation runs.
type measured struct {
	held      float64 // bytes of captures in slots or queues
	allocated float64 // bytes of all slots
	holding   []point // bytes held over time
	commits   []mark
	mixes     []mix // by epoch
	redone    int
}

// point is a value from a time on.
type point struct{ at, value float64 }

// mark is a committed window.
type mark struct {
	at     float64
	tokens int     // over the run so far
	error  float64 // of the mix: the most by which the window, or its epoch so far, is off a bucket's share, in batches
}

// mix counts batches by bucket, of an epoch: all of them, and those committed.
type mix struct {
	all, done       []int
	total, finished int
}

// count adds a batch to the mix.
func (m *mix) count(b *batch, buckets int) {
	if m.all == nil {
		m.all, m.done = make([]int, buckets), make([]int, buckets)
	}
	m.all[b.bucket]++
	m.total++
}

// commit adds a window to what is committed, and returns the error of the mix.
func (m *mix) commit(list []*batch) (most float64) {
	window := make([]int, len(m.all))
	for _, b := range list {
		window[b.bucket]++
		m.done[b.bucket]++
	}
	m.finished += len(list)
	for i, n := range m.all {
		share := float64(n) / float64(m.total)
		most = max(most, math.Abs(float64(window[i])-share*float64(len(list))), math.Abs(float64(m.done[i])-share*float64(m.finished)))
	}
	return most
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
func (w *world) committed(list []*batch, of *mix) {
	m := mark{at: w.now, error: of.commit(list)}
	if n := len(w.commits); n > 0 {
		m.tokens = w.commits[n-1].tokens
	}
	for _, b := range list {
		m.tokens += b.Tokens
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
