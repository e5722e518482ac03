package stages_test

import (
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/scenario"
	"penstock/stages/internal/worker"
	"penstock/stages/stagestest"
)

// On two GPUs, one of which the target shares with a rank, that rank leaves to the other what that completes sooner: the run is
// within 5 % of what the simulator says, whose ranks go by the same rule and reach the bound. Ranks that took whatever is ready
// would be slower by a seventh: the target would have half a GPU, and nobody enough to do.
func TestARankBesideTheTarget(t *testing.T) {
	const most, near = 5.0, 0.95
	config := stagestest.Config(t, 190, func(c *schema.Config) {
		c.Target.Instances, c.Pack.Instances, c.Draft.Ranks = 1, 2, 2
		c.Target.Slots, c.Pack.Slots = 4, 4
		c.Window.Batches = 24
		c.Train.Epochs = 4
	})
	for speed := most; ; speed /= 2 {
		s, docs := scaled(t, config, "two-gpu-shared", speed)
		s.Epochs, s.Draft.Optimizer, s.Pack.Copy = config.Train.Epochs, 0, 0
		gpus := map[string]*timeShared{"target-1": {}, "draft-1": {}}
		gpus["draft-2"] = gpus["target-1"]
		seen := observe(t, config, s, func(instance, _ string) (kernels.Device, error) {
			return &slicer{Null: kernels.NewNull(), gpu: gpus[instance], times: s.Times(policy.Work{})}, nil
		})
		seen.turned(t, "draft-1")
		r := simulated(t, s, docs)
		got := seen.rate(config.Window.Lookahead, float64(r.Tokens))
		t.Logf("%.0f tokens/s, simulated %.0f, %.1f %% of the bound", got, r.TokensPerS, 100*r.OfBound)
		if r.OfBound < 0.98 {
			t.Fatal("the simulator is far from the bound")
		}
		if got >= near*r.TokensPerS {
			return
		}
		if late := seen.late(); late < calm || speed <= most/slower {
			t.Fatalf("%.3f of what is simulated; wakes up %v late", got/r.TokensPerS, late)
		}
	}
}

// turned holds that a rank says how long it took from window to window, and in which parts.
func (s *sightings) turned(t *testing.T, rank string) {
	t.Helper()
	last := s.stages[rank][len(s.stages[rank])-1]
	sum, parts := 0.0, 0
	for kind, seconds := range last.Took {
		if strings.HasPrefix(kind, worker.TurnPart) {
			sum += seconds
			parts++
		}
	}
	if last.Done[worker.Turn] == 0 || parts < 8 || math.Abs(sum-last.Took[worker.Turn]) > 1e-6 {
		t.Errorf("%s turns in %v, %v", rank, last.Took, last.Done)
	}
}

// timeShared is a GPU whose time is shared out equally among those that work on it.
type timeShared struct {
	mu      sync.Mutex
	working int
}

func (s *timeShared) enter(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.working += n
}

func (s *timeShared) share() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 1 / float64(s.working)
}

// slicer is a device that takes the time of a scenario on a GPU that others may share.
type slicer struct {
	*kernels.Null
	gpu   *timeShared
	times scenario.Times
	due   float64 // seconds of the GPU
	late  float64 // by which earlier work took more: a busy machine wakes up late
}

const slice = 500 * time.Microsecond

func (s *slicer) CausalAttention(_, _, _, _ kernels.Tensor, segs []kernels.Segment, _ kernels.Heads) {
	var w policy.Work
	for _, g := range segs {
		w.Add(int(g.Q1-g.Q0), 0)
	}
	s.due = s.times.Forward(w)
}

func (s *slicer) BlockAttention(_, _, _, kc, _, _, _ kernels.Tensor, blocks []kernels.Block, size int, _ kernels.Heads) {
	s.due = s.times.Step(policy.Work{Tokens: float64(kc.Rows), Slots: float64(len(blocks) * size)})
}

// Sync takes slices of the GPU's time until the work has taken what it should, on average.
func (s *slicer) Sync() error {
	if s.gpu != nil && s.due > 0 {
		left := s.due - s.late
		s.gpu.enter(1)
		for last := time.Now(); left > 0; {
			time.Sleep(slice)
			now := time.Now()
			left -= now.Sub(last).Seconds() * s.gpu.share()
			last = now
		}
		s.gpu.enter(-1)
		s.late = -left
	}
	s.due = 0
	return s.Null.Sync()
}
