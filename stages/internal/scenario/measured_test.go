package scenario

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/broker/policy"
)

func report(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bench.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadMeasured(t *testing.T) {
	path := report(t, `{"device":"cpu/go","measured":{"tokens":1,"forward":9,"step":9}}
{"device":"cpu/avx2","tokens_s":5,"measured":{"tokens":500,"forward":0.1,"step":0.2,"pack":0.01,"turn":0.03,"optimizer":0.02,"handoff":0.001}}
`)
	m, err := ReadMeasured(path)
	if want := (Measured{500, 0.1, 0.01, 0.2, 0.02, 0.03, 0.001}); err != nil || m != want {
		t.Errorf("%+v %v, want %+v", m, err, want)
	}
	for text, want := range map[string]string{
		"":               "tokens is 0",
		`{"tokens_s":5}`: "step is 0",
		"speed: 5":       "measured times in",
		`{"measured":{"tokens":1,"forward":1,"step":-1}}`:           "step is -1",
		`{"measured":{"tokens":1,"forward":1,"step":1,"turn":-2}}`:  "turn is -2",
		`{"measured":{"tokens":1,"forward":1,"step":1,"pack":-2}}`:  "pack is -2",
		`{"measured":{"tokens":1,"forward":1,"step":1,"pack":"x"}}`: "measured times in",
	} {
		if _, err := ReadMeasured(report(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadMeasured(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// A full batch takes what was measured, with half the tokens half of it, and a longer document still more than a short one.
func TestWithMeasuredTimes(t *testing.T) {
	s, err := Parse([]byte(`
lengths: {documents: 1, shares: [{edge: 64, share: 1}]}
batch: 1000
window: {batches: 1, lookahead: 1}
anchors: 1
block: 1
row: 1
target: {instances: 1, slots: 2, cost: {token: 1, square: 1}}
pack: {instances: 1, slots: 2, copy: 1e3}
draft: {instances: 1, optimizer: 7, cost: {token: 5, batch: 3}}
`))
	if err != nil {
		t.Fatal(err)
	}
	m := Measured{Tokens: 500, Forward: 0.1, Pack: 0.01, Step: 0.2, Optimizer: 0.02, Turn: 0.03, Handoff: 0.001}
	with := s.With(m)
	var total, long policy.Work
	for range 100 {
		total.Add(10, 0)
	}
	long.Add(1000, 0)
	times := with.Times(total)
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("a forward", times.Forward(total), 0.2)
	near("a pack", times.Pack(total, false), 0.02)
	near("a step", times.Step(total), 0.4)
	near("between windows", with.Draft.Optimizer, 0.03)
	near("a hand-off", with.Handoff, 0.001)
	if times.Forward(long) <= times.Forward(total) {
		t.Error("one long document costs no more than short ones")
	}
	if err := with.check(); err != nil {
		t.Error(err)
	}
	m.Pack = 0
	near("no pack", s.With(m).Times(total).Pack(total, false), 0)
	if s.Handoff != 0 || s.Draft.Optimizer != 7 {
		t.Error("the scenario itself has changed")
	}
}

func TestBound(t *testing.T) {
	m := Measured{Tokens: 100, Forward: 1, Step: 2, Optimizer: 0.5, Turn: 9, Handoff: 9}
	for _, c := range []struct {
		targets, ranks, gpus, window int
		want                         float64
	}{
		{1, 1, 0, 1, 40},        // ranks: 100 / 2.5
		{1, 1, 1, 1, 100 / 3.5}, // both on one
		{1, 2, 2, 4, 200 / 3.25},
		{1, 4, 0, 4, 100}, // the target
		{1, 8, 2, 8, 200 / 3.5},
	} {
		s := &Scenario{GPUs: c.gpus, Window: Window{Batches: c.window}}
		s.Target.Instances, s.Draft.Instances = c.targets, c.ranks
		if got := s.Bound(m); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %g, want %g", c, got, c.want)
		}
	}
}
