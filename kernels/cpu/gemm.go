package cpu

import (
	"penstock/kernels"
	"penstock/kernels/gemm"
)

// Gemm: c = op(a)·op(b) + beta·c.
func (d *Device) Gemm(c, a, b kernels.Tensor, ta, tb bool, beta float32) {
	kernels.CheckGemm(c, a, b, ta, tb, beta)
	d.path.Mul(d.team, matrix(c), matrix(a), matrix(b), ta, tb, beta)
}

func matrix(t kernels.Tensor) gemm.Matrix { return gemm.Dense(t.Rows, t.Cols, t.F32) }

// headMatrix views rows [lo, hi) of one head of t.
func headMatrix(t kernels.Tensor, lo, hi, head, dim int) gemm.Matrix {
	at := min(lo*t.Cols+head*dim, len(t.F32))
	return gemm.Matrix{Rows: hi - lo, Cols: dim, Stride: t.Cols, Data: t.F32[at:]}
}
