package cli

import (
	"strings"
	"sync"

	"penstock/schema"
	"penstock/stages/internal/account"
	"penstock/stages/internal/scenario"
	"penstock/stages/internal/telemetry"
	"penstock/stages/internal/worker"
)

// seen is what the stages of a run say of themselves while it is measured: the last of each before the first measured window,
// and the first of each behind the last one. It is safe for concurrent use.
type seen struct {
	from, to uint32 // windows committed: the first of them is not measured, the last one is

	mu           sync.Mutex
	began, ended int64 // Unix nanoseconds; 0: not yet
	first, last  map[string]schema.StageState
	planned      schema.PlanInfo
}

func newSeen(from, to int) *seen {
	return &seen{from: uint32(from), to: uint32(to), first: map[string]schema.StageState{}, last: map[string]schema.StageState{}}
}

// take takes in a record of the board.
func (s *seen) take(rec schema.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := rec.(type) {
	case schema.PlanInfo:
		s.planned = r
	case schema.Progress:
		if s.began == 0 && r.Windows >= s.from {
			s.began = r.At
		}
		if s.ended == 0 && r.Windows >= s.to {
			s.ended = r.At
		}
	case schema.StageState:
		if _, ok := s.first[r.Instance]; !ok || s.began == 0 || r.At <= s.began {
			s.first[r.Instance] = r
		}
		if last, ok := s.last[r.Instance]; !ok || s.ended == 0 || last.At < s.ended {
			s.last[r.Instance] = r
		}
	}
}

// plan is what the run trains on.
func (s *seen) plan() schema.PlanInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.planned
}

// spent is the seconds of each instance by activity, while it was measured.
func (s *seen) spent() map[string]map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]map[string]float64{}
	for name, last := range s.last {
		sums := map[string]float64{}
		for what, seconds := range last.Seconds {
			if d := seconds - s.first[name].Seconds[what]; d > 0 {
				sums[what] = d
			}
		}
		out[name] = sums
	}
	return out
}

// idle is the share of each instance's measured time that it waited.
func (s *seen) idle() map[string]float64 {
	out := map[string]float64{}
	for name, seconds := range s.spent() {
		out[name] = account.Idle(seconds)
	}
	return out
}

// took sums a kind of work over a stage's instances: how much was done, and in how many seconds.
func (s *seen) took(stage, kind string) (done, seconds float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, last := range s.last {
		if first := s.first[name]; last.Stage == stage {
			done += float64(last.Done[kind]) - float64(first.Done[kind])
			seconds += last.Took[kind] - first.Took[kind]
		}
	}
	return done, seconds
}

// mean is how long one piece of a kind of work takes in a stage; 0 if none was done.
func (s *seen) mean(stage, kind string) float64 {
	done, seconds := s.took(stage, kind)
	if done <= 0 {
		return 0
	}
	return seconds / done
}

// measured are the times that a scenario takes; batches have so many tokens.
func (s *seen) measured(tokens float64) scenario.Measured {
	m := scenario.Measured{
		Tokens: tokens, Forward: s.mean("target", telemetry.Forward), Pack: s.mean("pack", telemetry.Pack),
		Step: s.mean("draft", telemetry.Train), Optimizer: s.mean("draft", telemetry.Step), Turn: s.mean("draft", worker.Turn), Handoff: s.mean("pack", worker.Hand),
	}
	m.Turn = max(m.Turn, m.Optimizer)
	return m
}

// turns is how long ranks take from a window to the next, by part, in milliseconds; nil where no rank has others.
func (s *seen) turns() map[string]float64 {
	s.mu.Lock()
	kinds := map[string]bool{}
	for _, last := range s.last {
		for kind := range last.Took {
			kinds[kind] = true
		}
	}
	s.mu.Unlock()
	var out map[string]float64
	for kind := range kinds {
		part, ok := strings.CutPrefix(kind, worker.TurnPart)
		mean := s.mean("draft", kind)
		if !ok || mean == 0 {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		out[part] = 1e3 * mean
	}
	return out
}

// peer is what was copied from one GPU to another.
type peer struct {
	Bytes   float64 `json:"bytes"`
	Seconds float64 `json:"seconds"` // of copying, over all that copied
	BytesS  float64 `json:"bytes_s"`
}

// pulled is what the packers and drafters copied from other GPUs; nil for nothing.
func (s *seen) pulled() *peer {
	var p peer
	for _, stage := range []string{"pack", "draft"} {
		bytes, seconds := s.took(stage, worker.Pull)
		p.Bytes, p.Seconds = p.Bytes+bytes, p.Seconds+seconds
	}
	if p.Seconds <= 0 {
		return nil
	}
	p.BytesS = p.Bytes / p.Seconds
	return &p
}
