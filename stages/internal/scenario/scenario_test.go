package scenario

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"penstock/broker/policy"
	"penstock/schema/store"
)

const small = `
seed: 3
lengths: {documents: 50, shares: [{edge: 16, share: 5}, {edge: 64, share: 3}]}
batch: 128
window: {batches: 4, lookahead: 1}
anchors: 8
block: 4
row: 100
target: {instances: 2, slots: 2, cost: {token: 1e-3, noise: 0.1}}
pack: {instances: 1, slots: 2, copy: 1e6}
draft: {instances: 2, cost: {slot: 1e-3}}
`

func TestParse(t *testing.T) {
	s, err := Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if s.Hosts != 1 || s.Epochs != 1 || s.Draft.GPUs != 1 || s.Look != 0.5 || s.Pack.Slots != 2 {
		t.Errorf("defaults: %+v", s)
	}
	if c := s.Plan(); c.Data.Buckets != "16,64" || c.Data.MaxLength != 64 || c.Window.Batches != 4 || c.Batch.Tokens != 128 {
		t.Errorf("plan: %+v", c)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"seed: 3", "seed: 3\nspeed: 9", "line 3: field speed not found"},
		{"batch: 128", "batch: many", "cannot unmarshal"},
		{"batch: 128", "batch: 0", "batch is 0, want 1.."},
		{"batches: 4", "batches: 1", "cannot feed 2 ranks"},
		{"batches: 4", "batches: 257", "window.batches is 257"},
		{"slots: 2, cost", "slots: 1, cost", "pool of each target has 1 slot"},
		{"noise: 0.1", "noise: 1", "target.cost.noise is 1"},
		{"token: 1e-3", "token: -1", "target.cost.token is -1"},
		{"slot: 1e-3", "slot: .nan", "draft.cost.slot is NaN"},
		{"slot: 1e-3", "batch: 2", "draft.cost.batch needs token, square or slot"},
		{"edge: 64", "edge: 16", "edge 16 does not rise"},
		{"documents: 50", "documents: 0", "lengths.documents is 0"},
		{"documents: 50,", "documents: 50, store: x,", "needs one of shares, lognormal and store"},
		{"row: 100", "row: 100\nslow: [{instance: target-3, factor: 2}]", `there is no "target-3"`},
		{"row: 100", "row: 100\nslow: [{instance: pack-1, factor: 2}]", `there is no "pack-1"`},
		{"row: 100", "row: 100\nslow: [{instance: draft-2, factor: 0}]", "factor is 0"},
		{"row: 100", "row: 100\ncrashes: [{instance: draft-0, at: 1}]", `there is no "draft-0"`},
		{"row: 100", "row: 100\ncrashes: [{instance: draft-1, at: .inf}]", "crashes[0].at is +Inf"},
		{"draft: {instances: 2,", "crashes: [{instance: draft-1, at: 1}]\ndraft: {instances: 1,", "the only rank"},
	} {
		text := strings.Replace(small, c.from, c.to, 1)
		if text == small {
			t.Fatalf("%q is not in the scenario", c.from)
		}
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
	if _, err := Load("no-such.yaml"); err == nil || !strings.Contains(err.Error(), "no-such.yaml") {
		t.Errorf("missing file: %v", err)
	}
}

// Every scenario that comes with the project is valid, and stays the same when it is written and read again.
func TestScenariosOfTheProject(t *testing.T) {
	files, err := filepath.Glob("../../../deploy/config/sim/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		s, err := Load(f)
		if err != nil {
			t.Error(err)
			continue
		}
		b, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(b)
		if err != nil {
			t.Errorf("%s, written again: %v", f, err)
			continue
		}
		again.Name = s.Name
		if d := cmp.Diff(s, again, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s changes when it is written and read: %s", f, d)
		}
	}
}

// Buckets hold about as many tokens as their shares say.
func TestSharesAreOfTokens(t *testing.T) {
	s := &Scenario{Seed: 5, Lengths: Lengths{Documents: 200_000, Shares: []Share{{100, 50}, {200, 30}, {1000, 20}}}}
	docs, err := s.Draw()
	if err != nil {
		t.Fatal(err)
	}
	var tokens [3]float64
	var total float64
	for _, n := range docs {
		i := 0
		for ; int(n) > s.Lengths.Shares[i].Edge; i++ {
		}
		tokens[i] += float64(n)
		total += float64(n)
	}
	for i, want := range []float64{0.5, 0.3, 0.2} {
		if got := tokens[i] / total; math.Abs(got-want) > 0.01 {
			t.Errorf("bucket %d holds %.3f of the tokens, want %.2f", i, got, want)
		}
	}
}

func TestLognormal(t *testing.T) {
	s := &Scenario{Seed: 5, Lengths: Lengths{Documents: 100_001, Lognormal: &Lognormal{Median: 900, Deviation: 0.8, Min: 64, Max: 3072}}}
	docs, err := s.Draw()
	if err != nil {
		t.Fatal(err)
	}
	below := 0
	for _, n := range docs {
		if n < 64 || n > 3072 {
			t.Fatalf("a document of %d tokens", n)
		}
		if n < 900 {
			below++
		}
	}
	if share := float64(below) / float64(len(docs)); math.Abs(share-0.5) > 0.01 {
		t.Errorf("%.3f of the documents are below the median", share)
	}
}

// However the costs are given, a full batch takes on average what batch says, and Plain says the same without it.
func TestTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := func(what string) float64 { return rapid.Float64Range(0, 10).Draw(t, what) }
		s := &Scenario{Seed: 1, Batch: 1000, Row: 8}
		s.Target.Cost = Cost{Token: 1 + f("token"), Square: f("square"), Batch: 0.5 + f("batch")}
		s.Draft.Cost = Cost{Token: f("context"), Slot: 1 + f("slot"), Batch: 0.5 + f("step")}
		s.Pack.Cost = Cost{Token: f("pack")}
		s.Pack.Copy, s.Pack.Network = 100, 50
		var works []policy.Work
		var total policy.Work
		for i := range rapid.IntRange(1, 9).Draw(t, "batches") {
			var w policy.Work
			w.Add(rapid.IntRange(1, 900).Draw(t, fmt.Sprint("length", i)), rapid.IntRange(1, 900).Draw(t, fmt.Sprint("slots", i)))
			works = append(works, w)
			total.Tokens, total.Squares, total.Slots = total.Tokens+w.Tokens, total.Squares+w.Squares, total.Slots+w.Slots
		}
		times := s.Times(total)
		plain := times.Plain(0.5).Times(policy.Work{})
		var forward, step float64
		for _, w := range works {
			forward += times.Forward(w)
			step += times.Step(w)
			for what, pair := range map[string][2]float64{"forward": {times.Forward(w), plain.Forward(w)}, "step": {times.Step(w), plain.Step(w)},
				"pack": {times.Pack(w, false), plain.Pack(w, false)}, "pack over the network": {times.Pack(w, true), plain.Pack(w, true)}} {
				if math.Abs(pair[0]/2-pair[1]) > 1e-9*pair[0] {
					t.Fatalf("%s: %g is %g at half the scale", what, pair[0], pair[1])
				}
			}
		}
		full := total.Tokens / float64(s.Batch)
		if math.Abs(forward/full/s.Target.Cost.Batch-1) > 1e-9 || math.Abs(step/full/s.Draft.Cost.Batch-1) > 1e-9 {
			t.Fatalf("%g and %g seconds a full batch, want %g and %g", forward/full, step/full, s.Target.Cost.Batch, s.Draft.Cost.Batch)
		}
	})
}

func TestLengthsOfAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.store")
	w, err := store.Create(path, store.Info{MaxLength: 64, Vocab: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{5, 9, 7} {
		if err := w.Add(uint64(i+1), make([]int32, n), make([]uint8, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]Documents{0: {5, 9, 7}, 2: {5, 9}, 8: {5, 9, 7}} {
		s := &Scenario{Lengths: Lengths{Store: path, Documents: most}}
		got, err := s.Draw()
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("at most %d: %v %s", most, err, d)
		}
	}
}

func TestStagingCopiesTwice(t *testing.T) {
	s := &Scenario{Row: 10}
	s.Pack.Copy = 1000
	w := policy.Work{Tokens: 50}
	if got := s.Times(policy.Work{}).Pack(w, false); got != 0.5 {
		t.Errorf("device to device: %g s", got)
	}
	s.Pack.Host = true
	if got := s.Times(policy.Work{}).Pack(w, false); got != 1 {
		t.Errorf("through host memory: %g s", got)
	}
}

func TestSlowFor(t *testing.T) {
	s := &Scenario{Slow: []Slow{{"target-1", 2, 10, 20}, {"target-1", 3, 15, 0}}}
	for at, want := range map[float64]float64{0: 1, 10: 2, 16: 6, 20: 3, 99: 3} {
		if got := s.Factor("target-1", at); got != want {
			t.Errorf("at %g s: %g, want %g", at, got, want)
		}
	}
	if s.Factor("target-2", 16) != 1 {
		t.Error("another instance is slow")
	}
}

// Noise depends on batch and attempt alone, and stays in its bounds.
func TestNoise(t *testing.T) {
	s := &Scenario{Seed: 1}
	s.Target.Cost.Noise, s.Staged.Fetch = 0.03, [2]float64{3.6, 5.6}
	for b := range 1000 {
		n, f := s.ForwardNoise(b, 0), s.Fetch(b)
		if n < 0.97 || n > 1.03 || f < 3.6 || f > 5.6 {
			t.Fatalf("batch %d: factor %g, fetch %g", b, n, f)
		}
		if n != s.ForwardNoise(b, 0) || n == s.ForwardNoise(b, 1) {
			t.Fatalf("batch %d: noise depends on more, or less, than batch and attempt", b)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if s.Lengths.Store != "" || s.Lengths.Documents > 1000 {
			return
		}
		docs, err := s.Draw()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range docs {
			if n < 1 || int(n) > s.Lengths.longest() {
				t.Fatalf("a document of %d tokens", n)
			}
		}
	})
}
