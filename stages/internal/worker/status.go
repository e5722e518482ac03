package worker

import (
	"context"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"penstock/schema"
)

const (
	sayEvery   = time.Second
	quietBoard = 2 * time.Second // the last word at the end may take this long
)

// Stuck is the state of a process that must be replaced.
const Stuck = "stuck"

// Status is what the process says of itself on the board.
type Status struct {
	w       *Worker
	Gen     atomic.Uint32 // generation that the process works in
	Batches atomic.Uint64
	Tokens  atomic.Uint64
	Handoff Latency

	mu      sync.Mutex
	state   string
	waiting string
	used    func() (used, slots int) // of its pool; nil for none
	pace    func() float64           // nil for none
	done    map[string]uint64
	took    map[string]float64
}

// Kinds of work that no span is of.
const (
	Turn     = "turn"   // from the end of a window's gradients to the first work of the next, whose input was there
	TurnPart = "turn: " // and the name of a part of that
	Pull     = "pull"   // of bytes from another GPU
	Hand     = "hand"   // on a hop: from its publish to the start of work, where work waited for nothing else
)

func newStatus(w *Worker) *Status {
	return &Status{w: w, state: "starting", Handoff: Latency{observe: w.Metrics.Handoff}, done: map[string]uint64{}, took: map[string]float64{}}
}

// Took counts n pieces of work of a kind, which took d together.
func (s *Status) Took(kind string, n uint64, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[kind] += n
	s.took[kind] += d.Seconds()
}

// Wait says what the process waits for, on the board and in its log.
func (s *Status) Wait(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != what {
		s.w.Log.Info("waiting", "for", what)
	}
	s.state, s.waiting = "waiting", what
}

func (s *Status) setUsed(used func() (used, slots int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = used
}

// SetPace has the board say how many seconds the process is measured to take for an operation.
func (s *Status) SetPace(pace func() float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pace = pace
}

// Running says that the process works.
func (s *Status) Running() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.waiting = "running", ""
}

// Record returns the status as it goes to the board.
func (s *Status) Record() schema.StageState {
	s.mu.Lock()
	state, waiting, used, pace := s.state, s.waiting, s.used, s.pace
	done, took := maps.Clone(s.done), maps.Clone(s.took)
	s.mu.Unlock()
	r := schema.StageState{
		Instance: s.w.Instance, Stage: s.w.Stage, Incarnation: s.w.Incarnation, PID: int32(os.Getpid()), Device: s.w.Device,
		State: state, Waiting: waiting, Gen: s.Gen.Load(), Batches: s.Batches.Load(), Tokens: s.Tokens.Load(),
		Seconds: s.w.Book.Seconds(), Done: done, Took: took, At: time.Now().UnixNano(),
	}
	if waiting == "" && state == "running" {
		r.Waiting = s.w.Book.Current()
	}
	if s.w.Hung() {
		r.State = Stuck
	}
	p50, p99 := s.Handoff.Quantiles()
	r.HandoffP50, r.HandoffP99 = p50.Seconds(), p99.Seconds()
	if pace != nil {
		r.Pace = pace()
	}
	if used != nil {
		n, slots := used()
		r.SlotsUsed, r.Slots = uint32(n), uint32(slots)
	}
	return r
}

func (s *Status) run(ctx context.Context) error {
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	for {
		if err := s.w.Conn.Board().Put(ctx, "stage."+s.w.Instance, s.Record()); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s.last(context.WithoutCancel(ctx))
		}
	}
}

// last says that the process is done.
func (s *Status) last(ctx context.Context) error {
	s.mu.Lock()
	s.state, s.waiting = "done", ""
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, quietBoard)
	defer cancel()
	return s.w.Conn.Board().Put(ctx, "stage."+s.w.Instance, s.Record())
}
