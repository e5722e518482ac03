package worker

import (
	"fmt"
	"math"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/schema/hf"
)

// The counts of an 8B target and its drafter, against ones made by hand.
func TestCosts(t *testing.T) {
	g := hf.Geometry{HiddenSize: 4096, IntermediateSize: 12288, Layers: 36, Heads: 32, KVHeads: 8, HeadDim: 128, VocabSize: 151936}
	var doc policy.Work
	doc.Add(3072, 0)
	per := TargetCosts(g, 34).Seconds("b3072", doc) / 3072 / 1e9
	if math.Abs(per-14.0) > 0.1 {
		t.Errorf("a forward costs %.2f GFLOP a token, want 14.0", per)
	}
	d := hf.DrafterConfig{Geometry: g, TargetHiddenSize: 4096, Taps: []int{1, 9, 17, 25, 33}}
	d.Layers = 5
	var batch policy.Work
	for range 4 {
		batch.Add(3072, 512*16)
	}
	if total := DraftCosts(d).Seconds("b3072", batch) / 1e12; math.Abs(total/294-1) > 0.1 {
		t.Errorf("a step costs %.0f TFLOP, want some 294 with attention", total)
	}
}

func TestCostsAreCorrected(t *testing.T) {
	c := TargetCosts(hf.Geometry{HiddenSize: 8, IntermediateSize: 8, Heads: 1, KVHeads: 1, HeadDim: 8}, 2)
	var short, long policy.Work
	short.Add(10, 0)
	long.Add(100, 0)
	before := c.Seconds("b128", long) / c.Seconds("b16", short)
	for range 5 {
		c.Observe("b16", short, 20*time.Millisecond)
	}
	if got := c.Seconds("b16", short); math.Abs(got-0.020) > 1e-9 {
		t.Errorf("a batch that takes 20 ms is expected to take %g s", got)
	}
	if after := c.Seconds("b128", long) / c.Seconds("b16", short); math.Abs(after/before-1) > 1e-9 {
		t.Errorf("a bucket that was not measured is %g times as expensive, was %g", after, before)
	}
}

// Choose takes the oldest window's most expensive hop among those that may be taken; in deterministic order, the first.
func TestParkChooses(t *testing.T) {
	cost := func(h schema.Hop) float64 { return float64(h.Tokens) }
	fill := func() *Park {
		p := NewPark(newKeeper(func(string) error { return nil }, time.Hour))
		for i, b := range []struct{ window, tokens uint32 }{{1, 900}, {0, 10}, {0, 300}, {0, 200}} {
			h := &broker.Delivery[schema.Hop]{AckSubject: fmt.Sprint(i)}
			h.Record.Window, h.Record.Index, h.Record.Tokens = b.window, uint32(i), b.tokens
			p.Add(h)
		}
		return p
	}
	any := func(schema.Hop) bool { return true }
	for _, c := range []struct {
		name  string
		order policy.Order
		may   func(schema.Hop) bool
		want  []uint32
	}{
		{"by window, then cost", policy.Order{}, any, []uint32{2, 3, 1, 0}},
		{"deterministic", policy.Order{Deterministic: true}, any, []uint32{0, 1, 2, 3}},
		{"what may be taken", policy.Order{}, func(h schema.Hop) bool { return h.Tokens != 300 }, []uint32{3, 1, 0}},
	} {
		p := fill()
		var got []uint32
		for {
			h, ok := p.Choose(c.order, cost, c.may)
			if !ok {
				break
			}
			got = append(got, h.Record.Index)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
