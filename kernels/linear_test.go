package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"penstock/kernels"
)

func TestGemm(t *testing.T) {
	const m, n, k = 5, 7, 9
	for flags := range 8 {
		ta, tb, beta := flags&1 != 0, flags&2 != 0, float32(flags>>2)
		a, b, c := in(m, k, 1), in(k, n, 2), in(m, n, 3)
		want := make([]float64, m*n)
		for i := range m {
			for j := range n {
				want[i*n+j] = float64(beta) * float64(c.F32[i*n+j])
				for p := range k {
					want[i*n+j] += float64(a.F32[i*k+p]) * float64(b.F32[p*n+j])
				}
			}
		}
		if beta == 0 {
			c.F32[3] = float32(math.NaN())
		}
		if ta {
			a = transposed(a)
		}
		if tb {
			b = transposed(b)
		}
		ref.Gemm(c, a, b, ta, tb, beta)
		near(t, fmt.Sprintf("c for ta=%v tb=%v beta=%v", ta, tb, beta), c.F32, want, 1e-7)
	}
}

func transposed(x kernels.Tensor) kernels.Tensor {
	y := ref.Alloc(x.Cols, x.Rows)
	for i := range x.Rows {
		for j := range x.Cols {
			y.F32[j*x.Rows+i] = x.F32[i*x.Cols+j]
		}
	}
	return y
}

func TestSwiGLU(t *testing.T) {
	gate, up, dout := in(4, 9, 1), in(4, 9, 2), in(4, 9, 3)
	ref.Scale(gate, 8)
	g, u := wide(gate), wide(up)
	forward := func() []float64 {
		y := make([]float64, len(g))
		for i, v := range g {
			y[i] = v / (1 + math.Exp(-v)) * u[i]
		}
		return y
	}
	out, dgate, dup := ref.Alloc(4, 9), ref.Alloc(4, 9), ref.Alloc(4, 9)
	ref.SwiGLU(out, gate, up)
	near(t, "out", out.F32, forward(), 1e-7)

	loss := func() float64 { return inner(dout, forward()) }
	ref.SwiGLUBackward(dgate, dup, dout, gate, up)
	near(t, "dgate", dgate.F32, slope(loss, g), 1e-7)
	near(t, "dup", dup.F32, slope(loss, u), 1e-7)
}
