package model

import (
	"errors"
	"math"
	"slices"
	"testing"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
	"penstock/schema/hf"
)

var twoTensors = []hf.Shape{{Name: "a.weight", Dims: []int{3, 5}}, {Name: "b.weight", Dims: []int{7}}}

func filled(dev kernels.Device, seed uint64) *Params {
	p := NewParams(dev, twoTensors)
	for i := range p.Len() {
		_, t := p.At(i)
		dev.Upload(t, kernelstest.Pattern(t.Len(), seed+uint64(i)))
	}
	return p
}

// TestOptimizerDividesAndClips: the step depends on the mean gradient alone, and beyond the clip on its direction alone.
func TestOptimizerDividesAndClips(t *testing.T) {
	dev := &kernels.Ref{}
	after := func(factor float32, den, clip float64) ([]float32, float64) {
		w, g := filled(dev, 1), filled(dev, 3)
		g.dev.Scale(g.Flat, factor)
		o := NewOptimizer(dev, w, AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-2, Decay: 0.01, Clip: clip})
		norm, err := o.Step(g, den, 0.1)
		if err != nil {
			t.Fatal(err)
		}
		return w.Flat.F32, norm
	}
	length := math.Sqrt(dev.SumSquares(filled(dev, 3).Flat))
	base, norm := after(1, 1, 0)
	if math.Abs(norm-length) > 1e-9 {
		t.Errorf("norm %v, want %v", norm, length)
	}
	if same, norm := after(8, 8, 0); !slices.Equal(same, base) || math.Abs(norm-length) > 1e-6 {
		t.Errorf("eight times the gradient over eight gives another step, norm %v", norm)
	}
	small, _ := after(0.5/float32(length), 1, 0)
	if clipped, norm := after(1, 1, 0.5); kernelstest.MaxRel(clipped, small) > 1e-6 || norm != length {
		t.Errorf("clipped to 0.5: not the step of a gradient of length 0.5 (norm %v)", norm)
	}
	if loose, _ := after(1, 1, 100); !slices.Equal(loose, base) {
		t.Error("a clip above the norm changes the step")
	}
}

func TestNonFiniteGradient(t *testing.T) {
	dev := &kernels.Ref{}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1)), math.MaxFloat32} {
		w, g := filled(dev, 1), filled(dev, 3)
		g.Tensor("b.weight").F32[6] = bad
		before := slices.Clone(w.Flat.F32)
		o := NewOptimizer(dev, w, AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Clip: 1})
		_, err := o.Step(g, 1, 0.1)
		if bad == math.MaxFloat32 { // large, yet finite: clipped
			if err != nil || o.Steps != 1 {
				t.Errorf("a large gradient: %v", err)
			}
			continue
		}
		var nf *NonFiniteError
		if !errors.As(err, &nf) || nf.Tensor != "b.weight" {
			t.Errorf("gradient %v: error %v, want one that names b.weight", bad, err)
		}
		if !slices.Equal(w.Flat.F32, before) || o.Steps != 0 || dev.SumSquares(o.M.Flat) != 0 {
			t.Errorf("gradient %v: the skipped step changed something", bad)
		}
	}
	o := NewOptimizer(dev, filled(dev, 1), AdamW{})
	for _, den := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := o.Step(filled(dev, 3), den, 0.1); err == nil {
			t.Errorf("denominator %v: no error", den)
		}
	}
}

func TestSchedule(t *testing.T) {
	s := Schedule{Kind: "cosine", Peak: 2, Warmup: 4, Steps: 12}
	for _, c := range []struct {
		kind string
		step int
		want float64
	}{
		{"cosine", 0, 0.5}, {"cosine", 3, 2}, {"cosine", 4, 2}, {"cosine", 8, 1}, {"cosine", 11, 1 + math.Cos(math.Pi*7/8)}, {"cosine", 12, 0},
		{"linear", 1, 1}, {"linear", 4, 2}, {"linear", 8, 1}, {"linear", 11, 0.25}, {"linear", 99, 0},
		{"constant", 2, 1.5}, {"constant", 4, 2}, {"constant", 99, 2},
	} {
		s.Kind = c.kind
		if got := s.LR(c.step); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: rate of step %d is %v, want %v", c.kind, c.step, got, c.want)
		}
	}
	wsd := Schedule{Kind: "wsd", Peak: 2, Warmup: 2, Cooldown: 4, Steps: 10}
	for step, want := range []float64{1, 2, 2, 2, 2, 2, 2, 1.5, 1, 0.5, 0} {
		if got := wsd.LR(step); math.Abs(got-want) > 1e-12 {
			t.Errorf("wsd at step %d: %v, want %v", step, got, want)
		}
	}
	if got := (Schedule{Kind: "cosine", Peak: 3, Steps: 1}).LR(0); got != 3 {
		t.Errorf("a run of one step without warm-up starts at %v, want 3", got)
	}
	for _, bad := range []Schedule{{Kind: "step", Steps: 1}, {Kind: "linear"}, {Kind: "linear", Warmup: 3, Steps: 2}, {Kind: "linear", Warmup: -1, Steps: 2}} {
		if bad.Check() == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}
