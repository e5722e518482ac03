package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"penstock/stages/internal/scenario"
)

var update = flag.Bool("update", false, "write golden files anew")

// load reads a scenario that users have, too.
func load(t testing.TB, name string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(filepath.Join("..", "..", "..", "deploy", "config", "sim", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func simulate(t testing.TB, s *scenario.Scenario, policy string) *Result {
	t.Helper()
	r, err := Run(context.Background(), s, policy, nil)
	if err != nil {
		t.Fatalf("%s under %s: %v", s.Name, policy, err)
	}
	if r.OfBound > 1+1e-9 { // whatever the draws, crashes and slow instances
		t.Errorf("%s under %s: %.3f %% of the bound", s.Name, policy, 100*r.OfBound)
	}
	return r
}

// The pipeline that the project replaces does in the simulator what it was measured to do; ours reaches the bound in
// bounded memory, mixed.
func TestSeedMachine(t *testing.T) {
	s := load(t, "seed-8gpu")
	old := simulate(t, s, Old)
	if old.TokensPerS < 12e3 || old.TokensPerS > 14.5e3 {
		t.Errorf("%s: %.0f tokens/s, measured were 12,000 to 14,500", Old, old.TokensPerS)
	}
	if old.PeakBytes < 150e9 || old.PeakBytes > 180e9 {
		t.Errorf("%s: %.0f GB held, measured were 150 to 180", Old, old.PeakBytes/1e9)
	}
	ours := simulate(t, s, Ours)
	if ours.OfBound < 0.97 {
		t.Errorf("%.1f %% of the bound", 100*ours.OfBound)
	}
	if ours.SlotBytes > 70e9 || ours.PeakBytes > ours.SlotBytes {
		t.Errorf("%.1f GB held, %.1f GB of slots", ours.PeakBytes/1e9, ours.SlotBytes/1e9)
	}
	if ours.MixError >= 1 {
		t.Errorf("the mix is off by %g batches", ours.MixError)
	}
	if ours.Bound < 21e3 || ours.Bound > 22e3 {
		t.Errorf("bound %.0f, target compute alone allows 21,500", ours.Bound)
	}
}

// Ours has the least idle time where lengths are skewed and where instances are slow, whatever the draws.
func TestLeastIdle(t *testing.T) {
	for _, name := range []string{"skewed-lengths", "straggler"} {
		s := load(t, name)
		for s.Seed = 1; s.Seed <= 4; s.Seed++ {
			ours := simulate(t, s, Ours)
			if ours.MixError >= 1 {
				t.Errorf("%s, seed %d: the mix is off by %g batches", name, s.Seed, ours.MixError)
			}
			for _, p := range Policies()[1:] {
				if r := simulate(t, s, p); r.DeviceIdle <= ours.DeviceIdle {
					t.Errorf("%s, seed %d: devices idle %.2f %% under %s, %.2f %% under ours", name, s.Seed, 100*r.DeviceIdle, p, 100*ours.DeviceIdle)
				}
			}
		}
	}
}

func TestOneGPU(t *testing.T) {
	if r := simulate(t, load(t, "one-gpu"), Ours); r.OfBound < 0.97 || r.DeviceIdle > 0.03 {
		t.Errorf("%.1f %% of the bound, the device idles %.1f %%", 100*r.OfBound, 100*r.DeviceIdle)
	}
}

// Fed with the times of an H200, the scenario of one GPU gives what a run reached there.
func TestOneGPUAsMeasured(t *testing.T) {
	const reached = 14564.0 // tokens/s of `bench e2e --geometry qwen3-8b --set window.lookahead=2`
	measured := scenario.Measured{
		Tokens: 12288, Forward: 12288 / 42694.0, Step: 0.512, // each alone; the step with its optimizer
		Pack: 0.009 * 12288 / reached, Turn: 0.018 * 12288 / reached, Handoff: 0.0007, // shares of the run's time, and the p50
	}
	s := load(t, "one-gpu")
	if bound := s.Bound(measured); math.Abs(bound-15356) > 10 {
		t.Errorf("bound %.0f, target and step alone allow 15,356", bound)
	}
	near := func(r *Result) bool { return math.Abs(r.TokensPerS-reached) <= 0.05*reached }
	if r := simulate(t, s.With(measured), Ours); !near(r) {
		t.Errorf("%.0f tokens/s, measured were %.0f", r.TokensPerS, reached)
	}
	if r := simulate(t, s, Ours); !near(r) {
		t.Errorf("%.0f tokens/s by the scenario's own times, measured were %.0f", r.TokensPerS, reached)
	}
	measured.Forward *= 1.3
	if r := simulate(t, s.With(measured), Ours); near(r) {
		t.Error("nobody would notice forwards that take 1.3 times as long")
	}
}

// On two GPUs a rank has one to itself, or shares the target's and takes fewer batches: both reach their bounds, however many
// batches a window has.
func TestTwoGPUs(t *testing.T) {
	apart, shared := simulate(t, load(t, "two-gpu"), Ours), simulate(t, load(t, "two-gpu-shared"), Ours)
	all := []*Result{apart, shared}
	for batches := 6; batches < 24; batches++ {
		s := load(t, "two-gpu-shared")
		s.Window.Batches = batches
		all = append(all, simulate(t, s, Ours))
	}
	for _, r := range all {
		if r.OfBound < 0.99 {
			t.Errorf("%s: %.1f %% of the bound in %d windows", r.Scenario, 100*r.OfBound, r.Windows)
		}
	}
	if shared.TokensPerS < 1.2*apart.TokensPerS {
		t.Errorf("%.0f tokens/s with two drafters, %.0f with one", shared.TokensPerS, apart.TokensPerS)
	}
	beside, alone := 0, 0
	for _, b := range shared.w.batches {
		switch b.rank.name {
		case "draft-1":
			alone++
		case "draft-2":
			beside++
		}
	}
	if alone < 2*beside {
		t.Errorf("the rank beside the target trained %d batches, the other %d", beside, alone)
	}
}

// Hand-offs delay batches, and lose none, whatever dies meanwhile.
func TestHandoffs(t *testing.T) {
	s := load(t, "crash")
	s.Lengths.Documents = 10000
	for i := range s.Crashes {
		s.Crashes[i].At /= 4
	}
	at := simulate(t, s, Ours)
	s.Handoff = 2
	r := simulate(t, s, Ours)
	for _, b := range r.w.batches {
		if b.state != added {
			t.Fatalf("batch %d is left in state %d", b.Index, b.state)
		}
	}
	if r.Redone == 0 || r.Seconds <= at.Seconds {
		t.Errorf("%d batches redone, %.0f s with hand-offs of 2 s, %.0f s without", r.Redone, r.Seconds, at.Seconds)
	}
	if held := r.w.held; math.Abs(held) > 1 {
		t.Errorf("%.0f bytes are still held", held)
	}
}

func TestCrashesCostTheirWorkOnly(t *testing.T) {
	s := load(t, "crash")
	for _, p := range Policies() {
		if p == Old {
			continue
		}
		r := simulate(t, s, p)
		if r.Redone == 0 || r.Redone > 3*s.Window.Batches {
			t.Errorf("%s: %d batches redone", p, r.Redone)
		}
		for _, b := range r.w.batches {
			if b.state != added {
				t.Fatalf("%s: batch %d is left in state %d", p, b.Index, b.state)
			}
		}
		if r.MixError >= 1 {
			t.Errorf("%s: the mix is off by %g batches", p, r.MixError)
		}
	}
	if r := simulate(t, s, Ours); r.OfBound < 0.97 {
		t.Errorf("%.1f %% of the bound of what was up", 100*r.OfBound)
	}
}

// An epoch of a million documents over 1,024 GPUs takes seconds to simulate.
func TestPod(t *testing.T) {
	s := load(t, "pod-1024")
	if n := s.Target.Instances + s.Draft.Instances*s.Draft.GPUs; n != 1024 || s.Hosts != 128 || s.Lengths.Documents != 1_000_000 {
		t.Errorf("%d GPUs over %d hosts, %d documents", n, s.Hosts, s.Lengths.Documents)
	}
	began := time.Now()
	r := simulate(t, s, Ours)
	if d := time.Since(began); d > 2*time.Minute {
		t.Errorf("took %v", d)
	}
	if r.OfBound < 0.97 {
		t.Errorf("%.1f %% of the bound", 100*r.OfBound)
	}
}

// Pull limits that move cost no speed: the outcome is that of limits that stay at their ceilings.
func TestMovingLimitsCostNothing(t *testing.T) {
	for _, name := range []string{"seed-8gpu", "skewed-lengths", "straggler", "one-gpu", "two-gpu-shared"} {
		s := load(t, name)
		moving := simulate(t, s, Ours)
		s.Look = 1e12
		still := simulate(t, s, Ours)
		if moving.TokensPerS < 0.995*still.TokensPerS {
			t.Errorf("%s: %.0f tokens/s, %.0f with limits that stay", name, moving.TokensPerS, still.TokensPerS)
		}
	}
}

func TestUnfit(t *testing.T) {
	small := func(change func(*scenario.Scenario)) *scenario.Scenario {
		s := load(t, "crash")
		s.Lengths.Documents = 500
		change(s)
		return s
	}
	for _, c := range []struct {
		policy string
		s      *scenario.Scenario
		want   string
	}{
		{"best", small(func(*scenario.Scenario) {}), "choose one of penstock"},
		{Old, small(func(*scenario.Scenario) {}), "staged.queue"},
		{Old, small(func(s *scenario.Scenario) { s.Staged.Queue = 1 }), "does not survive crashes"},
		{Ours, small(func(s *scenario.Scenario) { s.Lengths.Shares = nil; s.Lengths.Store = "no-such.store" }), "no-such.store"},
	} {
		if _, err := Run(context.Background(), c.s, c.policy, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.policy, err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, load(t, "seed-8gpu"), Ours, nil); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// Small scenarios give the report that is written down, under each policy.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		s, err := scenario.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".jsonl"
		var got []Report
		for _, p := range Policies() {
			if p != Old || s.Staged.Queue > 0 {
				got = append(got, simulate(t, s, p).Report)
			}
		}
		if *update {
			write(t, golden, got)
		}
		if d := cmp.Diff(read(t, golden), got, cmpopts.EquateApprox(1e-9, 0)); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

func write(t *testing.T, file string, reports []Report) {
	t.Helper()
	var out bytes.Buffer
	for _, r := range reports {
		if err := json.NewEncoder(&out).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) (reports []Report) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(bytes.NewReader(b)); dec.More(); {
		var r Report
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		reports = append(reports, r)
	}
	return reports
}

func BenchmarkPod(b *testing.B) {
	s := load(b, "pod-1024")
	docs, err := s.Draw()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Run(context.Background(), s, Ours, docs); err != nil {
			b.Fatal(err)
		}
	}
}
