// Package account books all of a process's wall time to one activity at a time.
package account

import (
	"maps"
	"sync"
	"time"
)

// Activities. Compute and Copy are work; the others are causes of waiting.
const (
	Starting = "starting"
	Compute  = "compute"
	Copy     = "copy"
	NoInput  = "no input"
	NoCredit = "no credit"
	NoSlot   = "no slot"
	Window   = "window" // for the open window to commit
	Step     = "step"   // the optimizer step, commit and evaluation
)

// Book adds up wall time by activity. Its sums equal the time since New, always. It is safe for concurrent use.
type Book struct {
	mu    sync.Mutex
	now   func() time.Time
	start time.Time
	since time.Time
	cur   string
	sums  map[string]time.Duration

	longest map[string]time.Duration // stretch of an activity
}

// New starts a book in the given activity.
func New(activity string) *Book { return newBook(activity, time.Now) }

func newBook(activity string, now func() time.Time) *Book {
	t := now()
	return &Book{now: now, start: t, since: t, cur: activity, sums: map[string]time.Duration{}, longest: map[string]time.Duration{}}
}

// Enter ends the current activity and begins another; it returns the one that ended.
func (b *Book) Enter(activity string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.now()
	b.sums[b.cur] += t.Sub(b.since)
	b.longest[b.cur] = max(b.longest[b.cur], t.Sub(b.since))
	prev := b.cur
	b.since, b.cur = t, activity
	return prev
}

// Current returns the activity that is running.
func (b *Book) Current() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cur
}

// Running returns the activity that is running, for how long, and the longest stretch of it before.
func (b *Book) Running() (activity string, lasting, longest time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cur, b.now().Sub(b.since), b.longest[b.cur]
}

// Seconds returns the sums so far, the running activity included.
func (b *Book) Seconds() map[string]float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	sums := maps.Clone(b.sums)
	sums[b.cur] += b.now().Sub(b.since)
	out := make(map[string]float64, len(sums))
	for k, v := range sums {
		out[k] = v.Seconds()
	}
	return out
}

// Working reports whether an activity is work.
func Working(activity string) bool {
	return activity == Compute || activity == Copy || activity == Step
}

// Idle returns the share of seconds, start-up aside, that went to waiting.
func Idle(seconds map[string]float64) float64 {
	var all, busy float64
	for k, v := range seconds {
		if k == Starting {
			continue
		}
		all += v
		if Working(k) {
			busy += v
		}
	}
	if all == 0 {
		return 0
	}
	return 1 - busy/all
}
