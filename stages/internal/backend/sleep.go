package backend

import (
	"fmt"
	"time"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/stages/internal/scenario"
)

// sleeper is a device that takes the time of a scenario instead of computing: its ops do nothing, and Sync sleeps for
// what the work enqueued since the last Sync is said to take. A forward is known by its first causal attention, a copy by
// its first CopyCols, a step by its first block attention. With it the pipeline can be held against the simulator.
type sleeper struct {
	*kernels.Null
	times   scenario.Times
	charged [3]bool // since the last Sync
	began   time.Time
	due     time.Duration
	late    time.Duration // by which earlier work took longer than it should: a busy machine wakes up late
}

// What is charged once between two Syncs.
const (
	aForward = iota
	aCopy
	aStep
)

// newSleeper reads the scenario file that says how long work takes.
func newSleeper(file string) (*sleeper, error) {
	s, err := scenario.Load(file)
	if err != nil {
		return nil, err
	}
	if s.Target.Cost.Batch+s.Pack.Cost.Batch+s.Draft.Cost.Batch > 0 {
		return nil, fmt.Errorf("scenario %s: costs of a batch are relative to a plan, which a device does not know: give seconds by token, square and slot alone", file)
	}
	return &sleeper{Null: kernels.NewNull(), times: s.Times(policy.Work{})}, nil
}

// Name is "sleep".
func (*sleeper) Name() string { return "sleep" }

func (s *sleeper) charge(what int, seconds float64) {
	if !s.charged[what] {
		if s.due == 0 {
			s.began = time.Now()
		}
		s.charged[what] = true
		s.due += time.Duration(seconds * float64(time.Second))
	}
}

func (s *sleeper) CausalAttention(_, _, _, _ kernels.Tensor, segs []kernels.Segment, _ kernels.Heads) {
	var w policy.Work
	for _, g := range segs {
		w.Add(int(g.Q1-g.Q0), 0)
	}
	s.charge(aForward, s.times.Forward(w))
}

func (s *sleeper) CopyCols(dst kernels.Tensor, _ int, _ kernels.Tensor) {
	s.charge(aCopy, s.times.Pack(policy.Work{Tokens: float64(dst.Rows)}, false))
}

func (s *sleeper) BlockAttention(_, _, _, kc, _, _, _ kernels.Tensor, blocks []kernels.Block, size int, _ kernels.Heads) {
	s.charge(aStep, s.times.Step(policy.Work{Tokens: float64(kc.Rows), Slots: float64(len(blocks) * size)}))
}

// Sync sleeps until the work has taken the time that it is said to take, on average.
func (s *sleeper) Sync() error {
	if s.due > 0 {
		time.Sleep(s.due - s.late - time.Since(s.began))
		s.late += time.Since(s.began) - s.due
		s.due, s.charged = 0, [3]bool{}
	}
	return s.Null.Sync()
}
