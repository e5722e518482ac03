package cpu

import (
	"math"

	"penstock/kernels"
	"penstock/kernels/internal/vec"
)

// sumRows is how many rows add to one partial sum of a weight gradient. It is fixed, so that the sum is.
const sumRows = 64

// RMSNorm: out = w·x·r, r = (mean(x²)+eps)^-½ per row.
func (d *Device) RMSNorm(out, x, w, rstd kernels.Tensor, eps float32) {
	kernels.CheckRMSNorm("RMSNorm", out, x, w, rstd)
	d.rows(x.Rows, x.Cols, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			r := rms(row(x, t), eps)
			vec.Norm(row(out, t), row(x, t), w.F32, r)
			if !rstd.IsNil() {
				rstd.F32[t] = r
			}
		}
	})
}

// rms returns (mean(x²)+eps)^-½.
func rms(x []float32, eps float32) float32 {
	return float32(1 / math.Sqrt(float64(vec.Dot(x, x))/float64(len(x))+float64(eps)))
}

// RMSNormBackward: with x̂ = x·r and g = dout·w, dx (+)= r·(g - x̂·mean(g·x̂)) and dw += Σ_t dout·x̂.
func (d *Device) RMSNormBackward(dx, dw, dout, x, w, rstd kernels.Tensor, accumulate bool) {
	const op = "RMSNormBackward"
	kernels.CheckRMSNorm(op, dout, x, w, rstd)
	kernels.Want(op, "dw", dw, 1, x.Cols)
	if !dx.IsNil() {
		kernels.Want(op, "dx", dx, x.Rows, x.Cols)
	}
	d.weightGrad(dw.F32, x.Rows, func(dw []float32, lo, hi int) {
		for t := lo; t < hi; t++ {
			vec.NormWeightGrad(dw, row(dout, t), row(x, t), rstd.F32[t])
			if !dx.IsNil() {
				rmsInputGrad(row(dx, t), row(dout, t), row(x, t), w.F32, rstd.F32[t], accumulate)
			}
		}
	})
}

// rmsInputGrad: dx (+)= r·(dout·w - x·r²·mean(dout·w·x)). dx may be dout.
func rmsInputGrad(dx, dout, x, w []float32, r float32, add bool) {
	m := float64(vec.Dot3(dout, w, x)) / float64(len(x)) * float64(r) * float64(r)
	vec.NormInputGrad(dx, dout, x, w, r, float32(m), add)
}

// weightGrad calls fn for ranges of rows, each with its own zeroed sum, and adds the sums to dw in the order of the rows.
func (d *Device) weightGrad(dw []float32, rows int, fn func(dw []float32, lo, hi int)) {
	n := len(dw)
	sums := d.partial(ceil(rows, sumRows) * n)
	d.ranges(rows, sumRows, func(lo, hi int) {
		at := lo / sumRows * n
		fn(sums[at:at+n:at+n], lo, hi)
	})
	for j := range dw {
		s := float64(dw[j])
		for at := j; at < len(sums); at += n {
			s += float64(sums[at])
		}
		dw[j] = float32(s)
	}
}
