// Package monitor turns the board's records into one view of a run, for the progress display and for status.
package monitor

import (
	"slices"
	"strings"
	"sync"
	"time"

	"penstock/schema"
	"penstock/stages/internal/account"
)

// rateSpan is the time over which speeds are averaged: long enough for an evaluation pause to blur.
const rateSpan = 20 * time.Second

// Tracker keeps the latest of each board record. It is safe for concurrent use.
type Tracker struct {
	mu       sync.Mutex
	plan     schema.PlanInfo
	progress schema.Progress
	gen      uint32 // generation of the marks
	marks    []mark // oldest first, spanning rateSpan
	buckets  map[string]schema.BucketState
	stages   map[string]schema.StageState
}

// mark is what had been done at one time.
type mark struct {
	at            time.Time
	windows       uint32
	tokens, slots uint64
}

// NewTracker returns a tracker that has seen nothing.
func NewTracker() *Tracker {
	return &Tracker{buckets: map[string]schema.BucketState{}, stages: map[string]schema.StageState{}}
}

// Apply takes one board record, of any kind, into the view.
func (t *Tracker) Apply(rec schema.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch r := rec.(type) {
	case schema.PlanInfo:
		t.plan = r
	case schema.BucketState:
		t.buckets[r.Bucket] = r
	case schema.StageState:
		t.stages[r.Instance] = r
	case schema.Progress:
		t.progress = r
		t.remember(r)
	}
}

func (t *Tracker) remember(p schema.Progress) {
	if p.Gen != t.gen {
		t.gen, t.marks = p.Gen, nil
	}
	at := time.Unix(0, p.At)
	t.marks = append(t.marks, mark{at, p.Windows, p.Tokens, p.Slots})
	for len(t.marks) > 2 && at.Sub(t.marks[1].at) >= rateSpan {
		t.marks = t.marks[1:]
	}
}

// View is a run at one moment.
type View struct {
	Run          string   `json:"run"`
	Gen          uint32   `json:"gen"`
	Windows      uint32   `json:"windows"` // committed
	Total        uint32   `json:"total"`
	Loss         float64  `json:"loss"`
	CrossEntropy float64  `json:"cross_entropy"` // decay-weighted, whatever the loss
	LR           float64  `json:"lr"`
	AcceptLength float64  `json:"accept_length"`
	Tokens       uint64   `json:"tokens"`
	Slots        uint64   `json:"slots"`
	TokensPerS   float64  `json:"tokens_s"`
	SlotsPerS    float64  `json:"slots_s"`
	SecondsLeft  float64  `json:"seconds_left"` // -1: not known yet
	Dead         uint32   `json:"dead"`
	Skipped      uint32   `json:"skipped"`
	Done         bool     `json:"done"`
	Buckets      []Bucket `json:"buckets"`
	Stages       []Stage  `json:"stages"`
}

// Bucket is a length bucket's stock and credit, in batches.
type Bucket struct {
	Name      string `json:"bucket"`
	Credit    uint32 `json:"credit"` // the pull limit in force
	Floor     uint32 `json:"floor"`
	Ceiling   uint32 `json:"ceiling"`
	Open      int    `json:"open"`  // roots pulled and not committed; -1 where the broker was not asked
	Stock     int    `json:"stock"` // roots published and not pulled; -1 likewise
	Published uint32 `json:"published"`
	Remaining uint32 `json:"remaining"`
}

// Stage is one instance.
type Stage struct {
	Instance  string             `json:"instance"`
	PID       int32              `json:"pid"`
	State     string             `json:"state"`
	Waiting   string             `json:"waiting"`
	Batches   uint64             `json:"batches"`
	Tokens    uint64             `json:"tokens"`
	SlotsUsed uint32             `json:"slots_used"`
	Slots     uint32             `json:"slots"`
	Idle      float64            `json:"idle"` // share of its time, start-up aside, spent waiting
	Seconds   map[string]float64 `json:"seconds"`
	Age       float64            `json:"age"`     // seconds since it said so
	Handoff   [2]float64         `json:"handoff"` // seconds from publish to start of work, p50 and p99
}

// View returns the run as known at now. Open counts are -1; see Fill.
func (t *Tracker) View(now time.Time) View {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.progress
	v := View{
		Run: t.plan.Run, Gen: p.Gen, Windows: p.Windows, Total: max(p.Total, t.plan.Windows), Loss: p.Loss, CrossEntropy: p.CrossEntropy, LR: p.LR,
		AcceptLength: p.AcceptLength, Tokens: p.Tokens, Slots: p.Slots, Dead: p.Dead, Skipped: p.Skipped, Done: p.Done,
		SecondsLeft: -1, Buckets: []Bucket{}, Stages: []Stage{},
	}
	t.recentRates(&v, now)
	if v.TokensPerS == 0 {
		t.averageRates(&v, now)
	}
	for _, b := range t.buckets {
		v.Buckets = append(v.Buckets, Bucket{b.Bucket, b.Credit, b.Floor, b.Ceiling, -1, -1, b.Published, b.Remaining})
	}
	slices.SortFunc(v.Buckets, func(a, b Bucket) int { return natural(a.Name, b.Name) })
	for _, s := range t.stages {
		v.Gen = max(v.Gen, s.Gen) // a new generation shows there before its first window commits
		v.Stages = append(v.Stages, Stage{
			s.Instance, s.PID, s.State, s.Waiting, s.Batches, s.Tokens, s.SlotsUsed, s.Slots,
			account.Idle(s.Seconds), s.Seconds, max(0, now.Sub(time.Unix(0, s.At)).Seconds()),
			[2]float64{s.HandoffP50, s.HandoffP99},
		})
	}
	slices.SortFunc(v.Stages, func(a, b Stage) int {
		if c := order(a.Instance) - order(b.Instance); c != 0 {
			return c
		}
		return natural(a.Instance, b.Instance)
	})
	return v
}

// recentRates sets the speeds over the marks. A pause of more than a usual step counts, so that a stall shows.
func (t *Tracker) recentRates(v *View, now time.Time) {
	n := len(t.marks)
	if n < 2 {
		return
	}
	first, last := t.marks[0], t.marks[n-1]
	windows, seconds := float64(last.windows)-float64(first.windows), last.at.Sub(first.at).Seconds()
	if windows <= 0 || seconds <= 0 {
		return
	}
	usual, pause := seconds/windows, max(0, now.Sub(last.at).Seconds())
	seconds += max(0, pause-usual)
	v.TokensPerS = float64(last.tokens-first.tokens) / seconds
	v.SlotsPerS = float64(last.slots-first.slots) / seconds
	v.SecondsLeft = max(0, float64(v.Total-min(v.Total, v.Windows))*seconds/windows-min(pause, usual))
}

// averageRates sets the speeds from the trainers' own accounts, for a tracker that has seen one progress record only.
func (t *Tracker) averageRates(v *View, now time.Time) {
	for _, s := range t.stages {
		if s.Stage != "draft" {
			continue
		}
		seconds := -s.Seconds[account.Starting]
		for _, x := range s.Seconds {
			seconds += x
		}
		if seconds > 0 {
			v.TokensPerS += float64(s.Tokens) / seconds
		}
	}
	if v.TokensPerS == 0 || v.Tokens == 0 || v.Windows == 0 {
		v.TokensPerS = 0
		return
	}
	v.SlotsPerS = v.TokensPerS * float64(v.Slots) / float64(v.Tokens)
	left := float64(v.Total-min(v.Total, v.Windows)) * float64(v.Tokens) / float64(v.Windows) / v.TokensPerS
	v.SecondsLeft = max(0, left-now.Sub(time.Unix(0, t.progress.At)).Seconds())
}

// Fill sets a bucket's open roots and its stock from what the broker's consumer says.
func (v *View) Fill(bucket string, open, stock int) {
	for i, b := range v.Buckets {
		if b.Name == bucket {
			v.Buckets[i].Open, v.Buckets[i].Stock = open, stock
		}
	}
}

// order is the place of an instance's stage in the flow.
func order(instance string) int {
	for i, stage := range []string{"broker", "batch", "target", "pack", "draft"} {
		if strings.HasPrefix(instance, stage) {
			return i
		}
	}
	return len(instance) + 5
}

// natural compares names so that b96 comes before b128.
func natural(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
