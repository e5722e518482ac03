package sim

import (
	"testing"
	"time"

	"penstock/stages/internal/scenario"
)

// choices returns functions that make a target and a rank of a pod choose. The roots of the first windows are published, and for
// the rank every one of them is packed.
func choices(t testing.TB, change func(*scenario.Scenario)) (target, rank func()) {
	s := load(t, "pod-1024")
	if change != nil {
		change(s)
	}
	docs, err := s.Draw()
	if err != nil {
		t.Fatal(err)
	}
	p := &penstock{}
	w, err := newWorld(s, docs, p)
	if err != nil {
		t.Fatal(err)
	}
	p.begin(w)
	w.publish()
	for _, line := range w.roots.lines {
		for _, b := range line {
			w.ready.push(p.readyLine(w, b), b)
		}
	}
	for _, k := range []*instance{w.targets[0], w.ranks[0]} { // who has measured every bucket corrects every prediction
		for i := range w.buckets {
			for range 4 {
				k.costs.Observe(w.buckets[i].name, 1, 1.1)
			}
		}
	}
	chosen := func(b *batch) {
		if b == nil {
			t.Fatal("nothing to choose")
		}
	}
	return func() { b, _ := p.choose(w, w.targets[0]); chosen(b) }, func() { chosen(p.claim(w, w.ranks[0])) }
}

// crowded has the most buckets that there can be, each with roots in every window.
func crowded(s *scenario.Scenario) {
	s.Lengths = scenario.Lengths{Documents: 200_000, Buckets: "auto:64",
		Lognormal: &scenario.Lognormal{Median: 900, Deviation: 0.8, Min: 64, Max: 3072}}
}

// A choice costs less than 10 µs, however many buckets there are. Of many rounds the fastest counts: whoever else uses the
// machine makes no round faster.
func TestChoiceIsCheap(t *testing.T) {
	for name, change := range map[string]func(*scenario.Scenario){"pod": nil, "64 buckets": crowded} {
		target, rank := choices(t, change)
		for who, choose := range map[string]func(){"target": target, "rank": rank} {
			best := time.Hour
			for range 200 {
				const n = 20 // too few to be interrupted each time
				began := time.Now()
				for range n {
					choose()
				}
				best = min(best, time.Since(began)/n)
			}
			t.Logf("%s, %s: %v a choice", name, who, best)
			if best > 10*time.Microsecond {
				t.Errorf("%s, %s: %v a choice", name, who, best)
			}
		}
	}
}

// A choice over all buckets of a pod, as a target makes it.
func BenchmarkChoice(b *testing.B) {
	choose, _ := choices(b, nil)
	for b.Loop() {
		choose()
	}
}
