package worker

import (
	"slices"
	"sync"
	"time"
)

// latest is how many hand-offs the percentiles are taken over.
const latest = 4096

// Latency keeps the times from publish to the start of work of the latest hops. It is safe for concurrent use.
type Latency struct {
	observe func(seconds float64) // nil: nobody else counts

	mu   sync.Mutex
	ring [latest]time.Duration
	n    int
}

// Add counts a hop that was sent at a time in Unix nanoseconds and is worked on from now on.
func (l *Latency) Add(sent int64) {
	d := time.Since(time.Unix(0, sent))
	if l.observe != nil {
		l.observe(d.Seconds())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.n%latest] = d
	l.n++
}

// Quantiles returns the p50 and p99, zero before the first hop.
func (l *Latency) Quantiles() (p50, p99 time.Duration) {
	l.mu.Lock()
	s := slices.Clone(l.ring[:min(l.n, latest)])
	l.mu.Unlock()
	if len(s) == 0 {
		return 0, 0
	}
	slices.Sort(s)
	return s[len(s)/2], s[len(s)*99/100]
}
