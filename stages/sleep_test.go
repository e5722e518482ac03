package stages_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/schema"
	"penstock/schema/store"
	"penstock/stages/internal/account"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/prepare"
	"penstock/stages/internal/scenario"
	"penstock/stages/internal/sim"
	"penstock/stages/stagestest"
)

const (
	within = 0.05                   // of an idle share
	calm   = 300 * time.Microsecond // by which a sleeper wakes up late, on a machine that has time
	slower = 8                      // times, at most, that a run is slowed down on one that has not
)

// The stages of a real run take a scenario's times instead of computing, scaled; the idle share of each stage must be
// what the simulator says of the same plan. This holds the simulator against the product.
//
// What else the machine does delays every message, which the simulator cannot know. So the test measures how late it wakes up
// itself: where that disturbs, and the shares differ, it runs again at half the speed, to which the same delay is half as much.
func TestSimulatorAgreesWithTheStages(t *testing.T) {
	for _, c := range []struct {
		name                    string
		targets, packers, ranks int
		window                  int     // batches
		speed                   float64 // seconds of the scenario to one of the run
	}{
		{"drafters are the bottleneck", 2, 1, 1, 8, 30},
		{"targets are the bottleneck", 1, 1, 1, 8, 35},
		{"two ranks", 3, 2, 2, 12, 15},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := stagestest.Config(t, 190, func(s *schema.Config) {
				s.Target.Instances, s.Pack.Instances, s.Draft.Ranks = c.targets, c.packers, c.ranks
				s.Target.Slots, s.Pack.Slots = 3, 4
				s.Window.Batches = c.window
			})
			for speed := c.speed; ; speed /= 2 {
				s, docs := scaled(t, config, "seed-8gpu", speed)
				seen := observe(t, config, s, nil)
				seen.accounted(t)
				measured := seen.idle(config.Window.Lookahead)
				apart := compare(t, measured, simulated(t, s, docs))
				if len(apart) == 0 {
					s.Draft.Cost.Token, s.Draft.Cost.Slot = 1.3*s.Draft.Cost.Token, 1.3*s.Draft.Cost.Slot
					if len(compare(t, measured, simulated(t, s, docs))) == 0 {
						t.Error("nobody would notice drafters that take 1.3 times as long")
					}
					return
				}
				if late := seen.late(); late < calm || speed <= c.speed/slower {
					t.Fatalf("%s; wakes up %v late", strings.Join(apart, "; "), late)
				}
				t.Logf("%s; wakes up %v late: again at half the speed", strings.Join(apart, "; "), seen.late())
			}
		})
	}
}

// observe watches a run whose stages take a scenario's times, on devices that open opens unless it is nil.
func observe(t *testing.T, config schema.Config, s *scenario.Scenario, open func(instance, device string) (kernels.Device, error)) *sightings {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scaled.yaml")
	text, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	config.Device = "sleep/" + file
	p := stagestest.New(t, config)
	p.Open = open
	seen := &sightings{}
	err = p.Run(t.Context(), func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return seen.watch(ctx, p) })
		g.Go(func() error { return seen.doze(ctx) })
		return g.Wait()
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func simulated(t *testing.T, s *scenario.Scenario, docs plan.Lengths) *sim.Result {
	t.Helper()
	r, err := sim.Run(t.Context(), s, sim.Ours, docs)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scaled is the machine of a scenario, faster and with the instances, windows and documents of a run.
func scaled(t *testing.T, c schema.Config, name string, speed float64) (*scenario.Scenario, lengths) {
	t.Helper()
	s, err := scenario.Load(filepath.Join(stagestest.Root(), "deploy", "config", "sim", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	docs := documents(t, c)
	s.Seed, s.Batch, s.Window = c.Seed, c.Batch.Tokens, scenario.Window(c.Window)
	s.Lengths = scenario.Lengths{Documents: len(docs), Store: "given", Max: c.Data.MaxLength, Buckets: c.Data.Buckets}
	s.Anchors, s.Block = c.Train.Anchors, c.Draft.BlockSize
	s.Target.Instances, s.Pack.Instances, s.Draft.Instances = c.Target.Instances, c.Pack.Instances, c.Draft.Ranks
	s.Target.Cost.Noise = 0 // the device knows no batch to draw it by
	var total policy.Work
	for _, n := range docs {
		s.Work(&total, n)
	}
	return s.Times(total).Plain(1 / speed), docs
}

type lengths []int

func (l lengths) Len() int         { return len(l) }
func (l lengths) Length(i int) int { return l[i] }

var _ plan.Lengths = lengths(nil)

// documents are the lengths in the store that a run of the configuration makes.
func documents(t *testing.T, c schema.Config) lengths {
	t.Helper()
	r, err := prepare.Prepare(t.Context(), prepare.OptionsFor(c, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(r.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	docs := make(lengths, st.Len())
	for i := range docs {
		docs[i] = st.Length(i)
	}
	return docs
}

// sightings are what instances said of themselves on the board, and when windows were committed.
type sightings struct {
	stages  map[string][]schema.StageState
	commits []int64 // Unix nanoseconds at which so many windows were first seen committed

	naps, overslept time.Duration // how often, and by how much
}

// doze wakes up every few milliseconds until ctx ends, and counts how late.
func (s *sightings) doze(ctx context.Context) error {
	const nap = 5 * time.Millisecond
	for timer := time.NewTimer(nap); ; {
		began := time.Now()
		timer.Reset(nap)
		select {
		case <-timer.C:
			s.naps++
			s.overslept += time.Since(began) - nap
		case <-ctx.Done():
			return nil
		}
	}
}

// late is by how much a sleeper woke up late, on average.
func (s *sightings) late() time.Duration { return s.overslept / max(1, s.naps) }

// accounted holds that each instance says what it did with all its time: what it books sums to wall time within 1 %.
func (s *sightings) accounted(t *testing.T) {
	t.Helper()
	for _, stage := range []string{"batch", "target-1", "pack-1", "draft-1"} {
		if len(s.stages[stage]) < 2 {
			t.Errorf("%s has said nothing of itself", stage)
		}
	}
	for name, said := range s.stages {
		first, last := said[0], said[len(said)-1]
		wall, sum := float64(last.At-first.At)/1e9, 0.0
		for what, seconds := range last.Seconds {
			sum += seconds - first.Seconds[what]
		}
		if math.Abs(sum-wall) > 0.01*wall {
			t.Errorf("%s accounts for %.3f s of %.3f s: %v", name, sum, wall, last.Seconds)
		}
	}
}

func (s *sightings) watch(ctx context.Context, p *stagestest.Pipeline) error {
	conn, err := p.Dial(ctx, broker.RoleObserver)
	if err != nil {
		return err
	}
	defer conn.Close()
	s.stages = map[string][]schema.StageState{}
	err = conn.Board().Watch(ctx, ">", func(h broker.Hint) error {
		switch r := h.Record.(type) {
		case schema.StageState:
			s.stages[r.Instance] = append(s.stages[r.Instance], r)
		case schema.Progress:
			for len(s.commits) <= int(r.Windows) {
				s.commits = append(s.commits, r.At)
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// idle is the share of each instance's time that it waited, without the first windows and the last: the time that the
// simulator reports on.
func (s *sightings) idle(lookahead int) map[string]float64 {
	if len(s.commits) < 2*lookahead+6 {
		return nil
	}
	from, to := s.commits[lookahead+2], s.commits[len(s.commits)-lookahead-2]
	shares := map[string]float64{}
	for name, said := range s.stages {
		said = slices.DeleteFunc(said, func(r schema.StageState) bool { return r.At < from || r.At > to })
		if len(said) < 2 {
			continue
		}
		first, last := said[0], said[len(said)-1]
		for what, seconds := range first.Seconds {
			last.Seconds[what] -= seconds
		}
		shares[name] = account.Idle(last.Seconds)
	}
	return shares
}

// rate is how many of so many tokens a run trained in a second, in the time that idle is of.
func (s *sightings) rate(lookahead int, tokens float64) float64 {
	from, to, windows := lookahead+2, len(s.commits)-lookahead-2, len(s.commits)-1
	if from >= to {
		return 0
	}
	return tokens * float64(to-from) / float64(windows) / (float64(s.commits[to]-s.commits[from]) / 1e9)
}

// compare holds each stage's mean against the simulator's, and returns which are too far apart. Which of several equal
// instances waits is chance.
func compare(t *testing.T, measured map[string]float64, r *sim.Result) (apart []string) {
	t.Helper()
	for stage, shares := range r.StageIdle {
		sum, n := 0.0, 0
		for name, share := range measured {
			if strings.HasPrefix(name, stage+"-") {
				sum += share
				n++
			}
		}
		got, want := sum/float64(n), shares["idle"]
		line := fmt.Sprintf("%-6s measured %5.1f %%, simulated %5.1f %%", stage, 100*got, 100*want)
		if n == 0 || math.Abs(got-want) > within {
			apart = append(apart, line)
		}
		t.Log(line)
	}
	return apart
}
