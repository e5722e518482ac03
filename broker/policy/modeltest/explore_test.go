package modeltest

import (
	"flag"
	"strings"
	"testing"
)

var long = flag.Bool("modeltest.long", false, "explore larger systems")

func explore(t *testing.T, sys System, limit int) Result {
	t.Helper()
	m, err := New(sys)
	if err != nil {
		t.Fatal(err)
	}
	res := Explore(m, limit)
	t.Logf("%s: %v", sys.Name, res)
	return res
}

func TestTmp(t *testing.T) {
	one := System{Lookahead: 1, Targets: 1, TargetSlots: 2, Packers: 1, PackSlots: 2, Ranks: 1}
	with := func(name string, plan [][]int, f func(s *System)) System {
		s := one
		s.Name, s.Plan = name, plan
		if f != nil {
			f(&s)
		}
		return s
	}
	four, three, two := [][]int{{0, 1}, {0, 1}}, [][]int{{0, 1}, {0}}, [][]int{{0}, {0}}
	_ = two
	for _, sys := range []System{
		with("plain", four, nil),
		with("plain3", three, nil),
		with("plain3/fine", three, func(s *System) { s.Grain = Grain{true, true, true} }),
		with("tcrash", three, func(s *System) { s.Faults.Target = 1 }),
		with("pcrash", three, func(s *System) { s.Faults.Packer = 1 }),
		with("rcrash", three, func(s *System) { s.Faults.Rank = 1 }),
		with("bcrash", three, func(s *System) { s.Faults.Builder = 1 }),
		with("2t", three, func(s *System) { s.Targets = 2 }),
		with("2p", three, func(s *System) { s.Packers = 2 }),
		with("2r", three, func(s *System) { s.Ranks = 2 }),
		with("2r/crash", three, func(s *System) { s.Ranks = 2; s.Faults.Rank = 1 }),
		with("det", three, func(s *System) { s.Deterministic = true }),
		with("marks", three, func(s *System) { s.Faults.LostMarks = 1 }),
		with("bad", three, func(s *System) { s.Faults.Bad = 2 }),
	} {
		res := explore(t, sys, 1_000_000)
		if f := res.Failure; f != nil {
			t.Errorf("%s: %v\n%s", sys.Name, f.Err, strings.Join(f.Steps, "\n"))
		}
	}
}
