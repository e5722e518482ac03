package sim

import (
	"context"
	"math"
	"testing"

	"pgregory.net/rapid"

	"penstock/stages/internal/scenario"
)

// drawScenario makes a small machine, with whatever may break on it.
func drawScenario(t *rapid.T) *scenario.Scenario {
	n := func(what string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, what) }
	cost := func(what string) scenario.Cost {
		return scenario.Cost{Token: 1e-3, Square: float64(n(what+" square", 0, 9)) * 1e-5, Slot: float64(n(what+" slot", 0, 9)) * 1e-5, Noise: 0.3}
	}
	s := &scenario.Scenario{Seed: rapid.Uint64().Draw(t, "seed"), Hosts: n("hosts", 1, 2), Epochs: n("epochs", 1, 2), Batch: 100,
		Anchors: 8, Block: 4, Row: 10, Look: 0.05}
	s.Lengths = scenario.Lengths{Documents: n("documents", 1, 120), Shares: []scenario.Share{{Edge: 10, Share: 5}, {Edge: 40, Share: 3}, {Edge: 90, Share: 2}}}
	s.Target = scenario.Stage{Instances: n("targets", 1, 4), Slots: n("target slots", 2, 4), Cost: cost("target")}
	s.Pack = scenario.PackStage{Stage: scenario.Stage{Instances: n("packers", 1, 3), Slots: n("pack slots", 2, 4), Cost: cost("pack")}}
	s.Pack.Cost.Noise = 0
	s.Draft = scenario.DraftStage{Stage: scenario.Stage{Instances: n("ranks", 1, 3), Cost: cost("draft")}, GPUs: 1, Optimizer: float64(n("optimizer", 0, 1)) * 0.05}
	s.Window = scenario.Window{Batches: n("window", s.Draft.Instances, 8), Lookahead: n("lookahead", 1, 3)}
	s.Staged = scenario.Staged{Queue: n("queue", 1, 5), Pack: 0.01, Fetch: [2]float64{0.01, 0.05}}
	if rapid.Bool().Draw(t, "shared GPUs") {
		s.GPUs = n("gpus", 1, s.Target.Instances+s.Draft.Instances)
	}
	for range n("slow", 0, 2) {
		s.Slow = append(s.Slow, scenario.Slow{Instance: name(t, s, "target", "draft"), Factor: 3, To: float64(n("until", 0, 2))})
	}
	return s
}

func name(t *rapid.T, s *scenario.Scenario, stages ...string) string {
	counts := map[string]int{"target": s.Target.Instances, "pack": s.Pack.Instances, "draft": s.Draft.Instances}
	stage := rapid.SampledFrom(stages).Draw(t, "stage")
	return stage + "-" + string(rune('0'+rapid.IntRange(1, counts[stage]).Draw(t, "instance")))
}

// Whatever the machine, the policy and the crashes: the run ends; every batch is trained; windows are mixed; no slot, no byte
// and no credit is lost; the time of each instance is accounted for.
func TestEveryRuleEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		policy := rapid.SampledFrom(Policies()).Draw(t, "policy")
		if policy != Old {
			stages := []string{"target", "pack"}
			if s.Draft.Instances > 1 {
				stages = append(stages, "draft")
			}
			for range rapid.IntRange(0, 4).Draw(t, "crashes") {
				s.Crashes = append(s.Crashes, scenario.Crash{Instance: name(t, s, stages...),
					At: rapid.Float64Range(0, 3).Draw(t, "at"), Down: rapid.Float64Range(0, 0.5).Draw(t, "down")})
			}
		}
		r, err := Run(context.Background(), s, policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		docs, _ := s.Draw()
		tokens := 0
		for i := range docs {
			tokens += docs.Length(i) * s.Epochs
		}
		if r.Tokens != tokens {
			t.Fatalf("%d tokens trained, there are %d", r.Tokens, tokens)
		}
		if policy != Old && r.MixError >= 1 {
			t.Fatalf("the mix is off by %g batches", r.MixError)
		}
		if math.Abs(r.w.held) > 1e-6 || policy != Old && r.PeakBytes > r.SlotBytes {
			t.Fatalf("%g bytes are still held; at most %g of %g", r.w.held, r.PeakBytes, r.SlotBytes)
		}
		for _, b := range r.w.buckets {
			if b.open != 0 || b.limit < b.limits.Floor || b.limit > max(1, b.limits.Ceiling) {
				t.Fatalf("bucket %s: %d open, limit %d of %+v", b.name, b.open, b.limit, b.limits)
			}
		}
		for _, i := range r.w.all() {
			if i.pool != nil && policy != Old && len(i.pool.Occupied()) > 0 {
				t.Fatalf("%s keeps %d slots", i.name, len(i.pool.Occupied()))
			}
			end := 0.0
			for _, sp := range i.spans {
				if sp.from != end || sp.to <= sp.from {
					t.Fatalf("%s: %+v follows what ended at %g", i.name, sp, end)
				}
				end = sp.to
			}
			if math.Abs(end-r.Seconds) > 1e-9 {
				t.Fatalf("%s is accounted for until %g of %g", i.name, end, r.Seconds)
			}
		}
	})
}

// No bucket ever has more open roots than its credit, and never is a batch of a later window in the last slot of a pool
// while the open window is not complete.
func TestCreditAndReservationHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		docs, err := s.Draw()
		if err != nil {
			t.Fatal(err)
		}
		r, err := newRule(rapid.SampledFrom([]string{Ours, "fifo", "longest-queue-first", "round-robin", "shortest-queue"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		w, err := newWorld(s, docs, r)
		if err != nil {
			t.Fatal(err)
		}
		w.rule.begin(w)
		for w.settle(); int(w.lineage.Next) < len(w.windows) && w.step(); w.settle() {
			for _, b := range w.buckets {
				if b.open > b.limit || b.limit > max(1, b.limits.Ceiling) {
					t.Fatalf("bucket %s: %d open, the limit is %d, the ceiling %d", b.name, b.open, b.limit, b.limits.Ceiling)
				}
			}
			for _, i := range w.all() {
				if i.pool == nil || i.pool.Free() > 0 {
					continue
				}
				oldest := false
				for _, u := range i.pool.Occupied() {
					oldest = oldest || u.Batch.Window <= w.lineage.Next
				}
				if !oldest {
					t.Fatalf("%s is full of batches of windows after %d", i.name, w.lineage.Next)
				}
			}
		}
		if int(w.lineage.Next) < len(w.windows) {
			t.Fatalf("stalled in window %d of %d", w.lineage.Next, len(w.windows))
		}
	})
}

func TestSameSeedSameRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScenario(t)
		a, err := Run(context.Background(), s, Ours, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(context.Background(), s, Ours, nil)
		if err != nil {
			t.Fatal(err)
		}
		if a.Seconds != b.Seconds || a.TokensPerS != b.TokensPerS || string(a.SVG()) != string(b.SVG()) {
			t.Fatal("two runs differ")
		}
	})
}
