package kernels_test

import (
	"math"
	"testing"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
)

var ref kernels.Ref

// near reports got and want that differ by more than tolerance of want's maximum.
func near(t *testing.T, name string, got []float32, want []float64, tolerance float64) {
	t.Helper()
	w := make([]float32, len(want))
	for i, v := range want {
		w[i] = float32(v)
	}
	if e := kernelstest.MaxRel(got, w); !(e <= tolerance) {
		t.Errorf("%s is off by %.3g of its maximum, limit %.3g\n got %.6v\nwant %.6v", name, e, tolerance, head(got), head(w))
	}
}

func head(v []float32) []float32 { return v[:min(len(v), 12)] }

// slope returns ∂f/∂x by central differences in float64.
func slope(f func() float64, x []float64) []float64 {
	const h = 1e-5
	g := make([]float64, len(x))
	for i, v := range x {
		x[i] = v + h
		up := f()
		x[i] = v - h
		g[i] = (up - f()) / (2 * h)
		x[i] = v
	}
	return g
}

// wide copies a tensor to float64.
func wide(t kernels.Tensor) []float64 {
	w := make([]float64, t.Len())
	for i, v := range t.F32 {
		w[i] = float64(v)
	}
	return w
}

func in(rows, cols int, seed uint64) kernels.Tensor {
	return kernels.Host(rows, cols, kernelstest.Pattern(rows*cols, seed))
}

// around is a tensor of values near 1.
func around(rows, cols int, seed uint64) kernels.Tensor {
	t := in(rows, cols, seed)
	for i, v := range t.F32 {
		t.F32[i] = 1 + v/8
	}
	return t
}

// inner is Σ a·b, the scalar whose gradient with respect to b is a.
func inner(a kernels.Tensor, b []float64) float64 {
	var s float64
	for i, v := range a.F32 {
		s += float64(v) * b[i]
	}
	return s
}

// norm64 is w·x/√(mean x² + eps) for one row.
func norm64(x, w []float64, eps float64) []float64 {
	var s float64
	for _, v := range x {
		s += v * v
	}
	r, y := 1/math.Sqrt(s/float64(len(x))+eps), make([]float64, len(x))
	for i, v := range x {
		y[i] = w[i] * v * r
	}
	return y
}
