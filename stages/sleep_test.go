package stages_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"penstock/broker/policy"
	"penstock/schema"
	"penstock/schema/store"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/prepare"
	"penstock/stages/internal/scenario"
	"penstock/stages/internal/sim"
	"penstock/stages/stagestest"
)

const (
	speedUp = 40   // real seconds of the scenario to one of the run
	within  = 0.05 // of an idle share
)

// The stages of a real run take a scenario's times instead of computing, scaled; each instance's idle share must be what
// the simulator says of the same plan. This holds the simulator against the product.
func TestSimulatorAgreesWithTheStages(t *testing.T) {
	for _, c := range []struct {
		name                   string
		targets, packers, rank int
	}{
		{"drafters are the bottleneck", 2, 1, 1},
		{"targets are the bottleneck", 1, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := stagestest.Config(t, 190, func(s *schema.Config) {
				s.Target.Instances, s.Pack.Instances, s.Draft.Ranks = c.targets, c.packers, c.rank
				s.Target.Slots, s.Pack.Slots = 3, 4
				s.Window.Batches = 8
			})
			s, docs := scaled(t, config)
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
			if err := p.Run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			r, err := sim.Run(t.Context(), s, sim.Ours, docs)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, idle(t, p), r)
		})
	}
}

// scaled is the machine of seed-8gpu, faster and with the instances, windows and documents of a run.
func scaled(t *testing.T, c schema.Config) (*scenario.Scenario, lengths) {
	t.Helper()
	s, err := scenario.Load(filepath.Join(stagestest.Root(), "deploy", "config", "sim", "seed-8gpu.yaml"))
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
	return s.Times(total).Plain(1.0 / speedUp), docs
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

// idle reads the share of each instance's time that a finished run spent waiting.
func idle(t *testing.T, p *stagestest.Pipeline) map[string]float64 {
	t.Helper()
	b, err := os.ReadFile(p.Dir.Summary())
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Idle map[string]float64 }
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s.Idle
}

func compare(t *testing.T, measured map[string]float64, r *sim.Result) {
	t.Helper()
	var names []string
	for name := range r.WholeIdle {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		got, ok := measured[name]
		want := r.WholeIdle[name]
		line := fmt.Sprintf("%-9s measured %5.1f %%, simulated %5.1f %%", name, 100*got, 100*want)
		if !ok || math.Abs(got-want) > within {
			t.Errorf("%s: more than %.0f points apart", line, 100*within)
			continue
		}
		t.Log(line)
	}
}
