package cpu

import (
	"penstock/kernels"
	"penstock/kernels/internal/vec"
)

// HeadNormRope: per head, out = rope(RMSNorm(x, w), pos).
func (d *Device) HeadNormRope(out, x, w, rstd kernels.Tensor, heads int, pos kernels.Index, rope kernels.Rope, eps float32) {
	dim := kernels.CheckHeadNormRope("HeadNormRope", out, x, w, rstd, heads, pos, rope)
	table, half := d.rope(rope, pos), dim/2
	d.rows(x.Rows, x.Cols, func(lo, hi int) {
		for t := lo; t < hi; t++ {
			cos, sin := table.at(pos.Host[t])
			for h := range heads {
				y, o := headColumns(x, t, h, dim), headColumns(out, t, h, dim)
				if !w.IsNil() {
					r := rms(y, eps)
					vec.Norm(o, y, w.F32, r)
					y = o
					if !rstd.IsNil() {
						rstd.F32[t*heads+h] = r
					}
				}
				vec.Rope(o[:half], o[half:], y[:half], y[half:], cos, sin)
			}
		}
	})
}

// HeadNormRopeBackward turns dout back by the same angle and goes on as RMSNormBackward: dx =, dw +=.
func (d *Device) HeadNormRopeBackward(dx, dw, dout, x, w, rstd kernels.Tensor, heads int, pos kernels.Index, rope kernels.Rope) {
	const op = "HeadNormRopeBackward"
	dim := kernels.CheckHeadNormRope(op, dout, x, w, rstd, heads, pos, rope)
	kernels.Want(op, "dx", dx, x.Rows, x.Cols)
	var sum []float32
	if !w.IsNil() {
		kernels.Want(op, "dw", dw, 1, dim)
		sum = dw.F32
	}
	table, half := d.rope(rope, pos), dim/2
	d.weightGrad(sum, x.Rows, func(dw []float32, lo, hi int) {
		for t := lo; t < hi; t++ {
			cos, sin := table.at(pos.Host[t])
			for h := range heads {
				g, o := headColumns(dx, t, h, dim), headColumns(dout, t, h, dim)
				vec.Rope(g[half:], g[:half], o[half:], o[:half], cos, sin)
				if !w.IsNil() {
					y, r := headColumns(x, t, h, dim), rstd.F32[t*heads+h]
					vec.NormWeightGrad(dw, g, y, r)
					rmsInputGrad(g, g, y, w.F32, r, false)
				}
			}
		}
	})
}
