package kernels

import (
	"fmt"
	"math"
)

// CheckHeadNormRope returns the head dimension and panics unless out and x are [T, heads·dim], w nil or [1, dim],
// rstd nil or [T, heads], pos has T entries and rope dim/2 frequencies.
func CheckHeadNormRope(op string, out, x, w, rstd Tensor, heads int, pos Index, rope Rope) (dim int) {
	dim = x.Cols / heads
	Want(op, "out", out, x.Rows, heads*dim)
	Want(op, "x", x, x.Rows, heads*dim)
	if !w.IsNil() {
		Want(op, "w", w, 1, dim)
	}
	if !rstd.IsNil() {
		Want(op, "rstd", rstd, x.Rows, heads)
	}
	WantIndex(op, "pos", pos, x.Rows)
	if 2*len(rope.InvFreq) != dim {
		panic(fmt.Sprintf("kernels: %s: %d frequencies for heads of %d", op, len(rope.InvFreq), dim))
	}
	return dim
}

// Angles fills cos and sin, both Dim/2 long, for one position: float32 angles, times Factor.
func (r Rope) Angles(cos, sin []float32, pos int32) {
	for i, f := range r.InvFreq {
		s, c := math.Sincos(float64(float32(pos) * f))
		cos[i], sin[i] = float32(c)*r.Factor, float32(s)*r.Factor
	}
}

// HeadNormRope: per head, y = RMSNorm(x, w) and, for i < dim/2,
// out[i] = y[i]·cos - y[i+dim/2]·sin, out[i+dim/2] = y[i+dim/2]·cos + y[i]·sin.
func (*Ref) HeadNormRope(out, x, w, rstd Tensor, heads int, pos Index, rope Rope, eps float32) {
	dim := CheckHeadNormRope("HeadNormRope", out, x, w, rstd, heads, pos, rope)
	cos, sin, y := make([]float32, dim/2), make([]float32, dim/2), make([]float32, dim)
	for t := range x.Rows {
		rope.Angles(cos, sin, pos.Host[t])
		for h := range heads {
			xh := row(x, t)[h*dim : (h+1)*dim]
			if w.IsNil() {
				copy(y, xh)
			} else if r := rms(y, xh, w.F32, eps); !rstd.IsNil() {
				rstd.F32[t*heads+h] = r
			}
			o := row(out, t)[h*dim : (h+1)*dim]
			for i, c := range cos {
				a, b := y[i], y[i+dim/2]
				o[i], o[i+dim/2] = a*c-b*sin[i], b*c+a*sin[i]
			}
		}
	}
}

// HeadNormRopeBackward turns dout back by the same angle and goes on as RMSNormBackward: dx =, dw +=.
func (*Ref) HeadNormRopeBackward(dx, dw, dout, x, w, rstd Tensor, heads int, pos Index, rope Rope) {
	const op = "HeadNormRopeBackward"
	dim := CheckHeadNormRope(op, dout, x, w, rstd, heads, pos, rope)
	Want(op, "dx", dx, x.Rows, x.Cols)
	if !w.IsNil() {
		Want(op, "dw", dw, 1, dim)
	}
	cos, sin, g, sum := make([]float32, dim/2), make([]float32, dim/2), make([]float32, dim), make([]float64, dim)
	for t := range x.Rows {
		rope.Angles(cos, sin, pos.Host[t])
		for h := range heads {
			lo, hi := h*dim, (h+1)*dim
			d := row(dout, t)[lo:hi]
			for i, c := range cos {
				a, b := d[i], d[i+dim/2]
				g[i], g[i+dim/2] = a*c+b*sin[i], b*c-a*sin[i]
			}
			if w.IsNil() {
				copy(row(dx, t)[lo:hi], g)
			} else {
				rmsBackward(row(dx, t)[lo:hi], sum, g, row(x, t)[lo:hi], w.F32, rstd.F32[t*heads+h])
			}
		}
	}
	if !w.IsNil() {
		for j, s := range sum {
			dw.F32[j] = float32(float64(dw.F32[j]) + s)
		}
	}
}
