package modeltest

import (
	"flag"
	"strings"
	"testing"
)

var long = flag.Bool("modeltest.long", false, "explore larger systems, for minutes and gigabytes")

// base is the smallest system: one of each process, two slots a pool, one window ahead.
var base = System{Lookahead: 1, Targets: 1, TargetSlots: 2, Packers: 1, PackSlots: 2, Ranks: 1}

// with returns base with another name and plan, and changed.
func with(name string, plan [][]int, change func(s *System)) System {
	s := base
	s.Name, s.Plan = name, plan
	if change != nil {
		change(&s)
	}
	return s
}

// Plans: windows of batches, each named by its bucket.
var (
	twoTwo   = [][]int{{0, 1}, {0, 1}}
	twoOne   = [][]int{{0, 1}, {0}}
	twoThird = [][]int{{0, 1}, {2}}
	twoMany  = [][]int{{0, 1}, {0, 0, 0}}
	mixed    = [][]int{{0, 1, 2}, {0, 1, 2}}
	oneOne   = [][]int{{0}, {0}}
	alone    = [][]int{{0}}
)

// systems keep every promise. Each is exhausted in seconds.
var systems = []System{
	with("three buckets", mixed, nil),
	with("three buckets at their ceilings", mixed, func(s *System) { s.AtCeiling = true }),
	with("pull limits move", mixed, func(s *System) { s.AtCeiling, s.Faults.Moves = true, 3 }),
	with("two targets, two packers", mixed, func(s *System) { s.Targets, s.Packers = 2, 2 }),
	with("one slot a pool", mixed, func(s *System) { s.Targets, s.TargetSlots, s.PackSlots, s.AtCeiling = 2, 1, 1, true }),
	with("one slot a pool, a packer and one of two ranks die", oneOne, func(s *System) {
		s.TargetSlots, s.PackSlots, s.Ranks, s.Faults.Packer, s.Faults.Rank = 1, 1, 2, 1, 1
	}),
	with("every step apart", twoOne, func(s *System) { s.Grain = Grain{true, true, true, true} }),
	with("the builder dies twice", mixed, func(s *System) { s.Faults.Builder = 2 }),
	with("a target dies twice", twoTwo, func(s *System) { s.Faults.Target = 2 }),
	with("a target dies, releases on their way", twoOne, func(s *System) { s.Faults.Target, s.Grain.Releases = 1, true }),
	with("a packer dies twice", twoTwo, func(s *System) { s.Faults.Packer = 2 }),
	with("a packer dies anywhere", oneOne, func(s *System) { s.Faults.Packer, s.Grain.Pack, s.Grain.Train = 1, true, true }),
	with("one of two packers dies", oneOne, func(s *System) { s.Packers, s.Faults.Packer, s.Grain.Pack = 2, 1, true }),
	with("a target and a packer die", twoTwo, func(s *System) { s.Faults.Target, s.Faults.Packer = 1, 1 }),
	with("the only rank dies", twoTwo, func(s *System) { s.Faults.Rank = 1 }),
	with("the only rank dies twice", oneOne, func(s *System) { s.Faults.Rank = 2 }),
	with("the only rank dies anywhere", oneOne, func(s *System) { s.Faults.Rank, s.Grain.Train = 1, true }),
	with("two ranks", twoTwo, func(s *System) { s.Ranks = 2 }),
	with("one of two ranks dies", twoOne, func(s *System) { s.Ranks, s.Faults.Rank = 2, 1 }),
	with("one of two ranks dies twice", alone, func(s *System) { s.Ranks, s.Faults.Rank = 2, 2 }),
	with("one of three ranks dies", alone, func(s *System) { s.Ranks, s.Faults.Rank = 3, 1 }),
	with("a rank and a packer die", alone, func(s *System) { s.Ranks, s.Faults.Rank, s.Faults.Packer, s.Grain.Reads = 2, 1, 1, true }),
	with("everybody dies", alone, func(s *System) { s.Faults.Builder, s.Faults.Target, s.Faults.Packer, s.Faults.Rank = 1, 1, 1, 1 }),
	with("a mark is lost", twoTwo, func(s *System) { s.Faults.LostMarks = 1 }),
	with("a mark is lost, two packers", twoOne, func(s *System) { s.Packers, s.Faults.LostMarks, s.Grain.Pack = 2, 1, true }),
	with("a mark is lost, two ranks", [][]int{{0, 1}}, func(s *System) { s.Ranks, s.Faults.LostMarks, s.Grain.Train = 2, 1, true }),
	with("a mark is lost while a rank reads", [][]int{{0, 0}}, func(s *System) { s.Faults.LostMarks, s.Grain.Train, s.Grain.Reads = 1, true, true }),
	with("messages are lost", twoOne, func(s *System) { s.AtCeiling, s.Faults.Lost, s.Grain.Releases = true, 1, true }),
	with("a message is lost, one of two ranks dies", alone, func(s *System) {
		s.Ranks, s.Faults.Rank, s.Faults.Lost, s.Grain.Releases = 2, 1, 1, true
	}),
	with("a message is lost and a packer dies", oneOne, func(s *System) { s.Faults.Packer, s.Faults.Lost, s.Grain.Releases = 1, 1, true }),
	with("two messages are doubled", oneOne, func(s *System) { s.Faults.Doubles, s.Grain.Releases = 2, true }),
	with("a message is doubled, two ranks", twoOne, func(s *System) { s.Ranks, s.Faults.Doubles = 2, 1 }),
	with("features are bad three times", mixed, func(s *System) { s.Faults.Bad = 3 }),
	with("bad features, two ranks", twoOne, func(s *System) { s.Ranks, s.Faults.Bad, s.Faults.Doubles = 2, 2, 1 }),
	with("bad features and a packer dies", twoOne, func(s *System) { s.Faults.Bad, s.Faults.Packer = 2, 1 }),
	with("bad features of a batch that the only rank has summed", oneOne, func(s *System) { s.Faults.Bad, s.Faults.LostMarks = 2, 1 }),
	with("deterministic", mixed, func(s *System) { s.Deterministic, s.InOrder = true, true }),
	with("deterministic, a part for each batch", mixed, func(s *System) { s.Deterministic = true }),
	with("deterministic, few buffers", [][]int{{0, 1, 0, 0}}, func(s *System) {
		s.Deterministic, s.InOrder, s.AtCeiling, s.Buffers, s.PackSlots = true, true, true, 2, 3
	}),
	with("deterministic, a target and a packer die", twoTwo, func(s *System) { s.Deterministic, s.Faults.Target, s.Faults.Packer = true, 1, 1 }),
	with("deterministic, a part for each batch, one of two ranks dies", [][]int{{0, 0, 0}}, func(s *System) {
		s.Deterministic, s.Lean, s.AtCeiling, s.Ranks, s.Faults.Rank = true, true, true, 2, 1
	}),
	with("deterministic, a part for each batch, one of two ranks dies, far ahead", [][]int{{0, 0}, {0}}, func(s *System) {
		s.Deterministic, s.Ordered, s.Lean, s.AtCeiling, s.Ranks, s.Faults.Rank = true, true, true, true, 2, 1
	}),
	with("deterministic, a part for each batch, one of two ranks dies, a later window first", [][]int{{0, 0}, {1, 1}}, func(s *System) {
		s.Deterministic, s.Lean, s.AtCeiling, s.Ranks, s.Faults.Rank = true, true, true, 2, 1
	}),
	with("deterministic, one of two ranks dies", [][]int{{0, 0, 0}}, func(s *System) {
		s.Deterministic, s.InOrder, s.Ordered, s.Lean, s.Ranks, s.Faults.Rank = true, true, true, true, 2, 1
	}),
	with("targets choose by the rule", mixed, func(s *System) { s.Targets, s.Ordered, s.AtCeiling = 2, true, true }),
}

// larger systems take minutes.
var larger = []System{
	with("large: three buckets, two of each", mixed, func(s *System) { s.Targets, s.Packers, s.Ranks, s.AtCeiling = 2, 2, 2, true }),
	with("large: every step apart", twoTwo, func(s *System) { s.Grain = Grain{true, true, true, false} }),
	with("large: one of two ranks dies", twoTwo, func(s *System) { s.Ranks, s.Faults.Rank = 2, 1 }),
	with("large: one of two ranks dies anywhere", twoOne, func(s *System) { s.Ranks, s.Faults.Rank, s.Grain.Train = 2, 1, true }),
	with("large: everybody dies", oneOne, func(s *System) { s.Faults.Builder, s.Faults.Target, s.Faults.Packer, s.Faults.Rank = 1, 1, 1, 1 }),
	with("large: marks are lost and messages doubled", twoOne, func(s *System) { s.Packers, s.Faults.LostMarks, s.Faults.Doubles = 2, 2, 1 }),
}

// explore exhausts a system and says how large it is.
func explore(t *testing.T, sys System) Result {
	t.Helper()
	m, err := New(sys)
	if err != nil {
		t.Fatal(err)
	}
	limit := 1_000_000
	if *long {
		limit = 40_000_000
	}
	res := Explore(m, limit)
	t.Logf("%v", res)
	return res
}

func TestEveryRuleInForce(t *testing.T) {
	list := systems
	if *long {
		list = append(list[:len(list):len(list)], larger...)
	}
	for _, sys := range list {
		t.Run(sys.Name, func(t *testing.T) {
			t.Parallel()
			res := explore(t, sys)
			if f := res.Failure; f != nil {
				t.Fatalf("%v, after\n  %s", f.Err, strings.Join(f.Steps, "\n  "))
			}
			if res.Complete == 0 {
				t.Error("the run never completes")
			}
		})
	}
}
