package kernels_test

import (
	"math"
	"testing"

	"penstock/kernels"
)

// TestAdamW follows the published update in float64 for a few steps.
func TestAdamW(t *testing.T) {
	w, m, v := in(3, 5, 1), ref.Alloc(3, 5), ref.Alloc(3, 5)
	w64, m64, v64 := wide(w), make([]float64, 15), make([]float64, 15)
	a := kernels.Adam{LR: 0.01, Beta1: 0.9, Beta2: 0.99, Eps: 1e-6, Decay: 0.1, GradScale: 0.5}
	for step := 1; step <= 4; step++ {
		g := in(3, 5, uint64(step+1))
		a.Step = step
		ref.AdamW(w, kernels.Tensor{}, m, v, g, a)
		for i, gi := range wide(g) {
			gi *= 0.5
			m64[i] = 0.9*m64[i] + 0.1*gi
			v64[i] = 0.99*v64[i] + 0.01*gi*gi
			mh, vh := m64[i]/(1-math.Pow(0.9, float64(step))), v64[i]/(1-math.Pow(0.99, float64(step)))
			w64[i] -= 0.01 * (0.1*w64[i] + mh/(math.Sqrt(vh)+1e-6))
		}
		near(t, "w", w.F32, w64, 1e-6)
		near(t, "m", m.F32, m64, 1e-6)
		near(t, "v", v.F32, v64, 1e-5)
	}
}

func TestSumSquares(t *testing.T) {
	if got := ref.SumSquares(kernels.Host(2, 3, []float32{1, 2, 3, 4, 5, 6})); got != 91 {
		t.Errorf("SumSquares = %v, want 91", got)
	}
}

func TestCheckFeatures(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name string
		x    kernels.Tensor
		want kernels.FeatureCheck
	}{
		{"ordinary", kernels.Host(2, 2, []float32{1, 2, 3, 4}), kernels.FeatureCheck{Finite: true}},
		{"zero", ref.Alloc(2, 2), kernels.FeatureCheck{Finite: true, Zero: true, Constant: true}},
		{"constant", kernels.Host(2, 2, []float32{1, 2, 1, 2}), kernels.FeatureCheck{Finite: true, Constant: true}},
		{"one row", kernels.Host(1, 2, []float32{1, 1}), kernels.FeatureCheck{Finite: true}},
		{"nan", kernels.Host(2, 2, []float32{1, 2, 3, nan}), kernels.FeatureCheck{}},
		{"inf", kernels.Host(2, 2, []float32{inf, 2, 3, 4}), kernels.FeatureCheck{}},
	} {
		got := ref.CheckFeatures(c.x)
		got.Checksum = 0
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestCheckSum fixes the sum's value, that parts add up, and that place and value both matter.
func TestCheckSum(t *testing.T) {
	x := []float32{1, -2, 0.5, 0}
	var want uint64
	for i, v := range x {
		h := (uint64(math.Float32bits(v)) ^ uint64(i+1)*0x9E3779B97F4A7C15) * 0x100000001B3
		want += h ^ h>>32
	}
	if got := kernels.CheckSum(x); got != want {
		t.Errorf("CheckSum = %#x, want %#x", got, want)
	}
	if parts := kernels.CheckSumFrom(x[:1], 0) + kernels.CheckSumFrom(x[1:], 1); parts != want {
		t.Errorf("sum of parts = %#x, want %#x", parts, want)
	}
	for name, y := range map[string][]float32{"swapped": {-2, 1, 0.5, 0}, "shorter": {1, -2, 0.5}, "negated": {-1, -2, 0.5, 0}} {
		if kernels.CheckSum(y) == want {
			t.Errorf("%s: same sum", name)
		}
	}
}
