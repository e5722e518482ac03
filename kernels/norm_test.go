package kernels_test

import (
	"math"
	"testing"

	"penstock/kernels"
)

func TestRMSNorm(t *testing.T) {
	const rows, cols, eps = 4, 11, 1e-3
	x, w, dout, out, rstd := in(rows, cols, 1), around(1, cols, 2), in(rows, cols, 3), ref.Alloc(rows, cols), ref.Alloc(rows, 1)
	xs, ws := wide(x), wide(w)
	forward := func() []float64 {
		var y []float64
		for i := range rows {
			y = append(y, norm64(xs[i*cols:(i+1)*cols], ws, eps)...)
		}
		return y
	}
	ref.RMSNorm(out, x, w, rstd, eps)
	near(t, "out", out.F32, forward(), 2e-7)

	loss := func() float64 { return inner(dout, forward()) }
	wantX, wantW := slope(loss, xs), slope(loss, ws)
	dx, dw := in(rows, cols, 4), in(1, cols, 5)
	sumX, sumW := wide(dx), wide(dw)
	for i, v := range wantX {
		sumX[i] += v
	}
	for i, v := range wantW {
		sumW[i] += v
	}
	ref.RMSNormBackward(dx, dw, dout, x, w, rstd, true)
	near(t, "accumulated dx", dx.F32, sumX, 1e-6)
	near(t, "accumulated dw", dw.F32, sumW, 1e-6)

	ref.Zero(dw)
	ref.RMSNormBackward(dx, dw, dout, x, w, rstd, false)
	near(t, "dx", dx.F32, wantX, 1e-6)
	near(t, "dw", dw.F32, wantW, 1e-6)

	ref.Zero(dw)
	ref.RMSNormBackward(kernels.Tensor{}, dw, dout, x, w, rstd, false)
	near(t, "dw alone", dw.F32, wantW, 1e-6)
}

func TestHeadNormRope(t *testing.T) {
	const rows, heads, dim, eps = 3, 2, 8, 1e-3
	rope := kernels.NewRope(dim, 100)
	rope.Factor = 1.25
	pos := ref.Index([]int32{0, 7, 300})
	for _, norm := range []bool{true, false} {
		x, dout, out, rstd := in(rows, heads*dim, 1), in(rows, heads*dim, 2), ref.Alloc(rows, heads*dim), ref.Alloc(rows, heads)
		w := around(1, dim, 3)
		xs, ws := wide(x), wide(w)
		forward := func() []float64 {
			var out []float64
			for i := range rows * heads {
				y := xs[i*dim : (i+1)*dim]
				if norm {
					y = norm64(y, ws, eps)
				}
				o := make([]float64, dim)
				for f := range dim / 2 {
					angle := float64(float32(pos.Host[i/heads]) * rope.InvFreq[f])
					c, s := 1.25*math.Cos(angle), 1.25*math.Sin(angle)
					o[f], o[f+dim/2] = y[f]*c-y[f+dim/2]*s, y[f+dim/2]*c+y[f]*s
				}
				out = append(out, o...)
			}
			return out
		}
		dx, dw := ref.Alloc(rows, heads*dim), ref.Alloc(1, dim)
		if !norm {
			w, rstd, dw = kernels.Tensor{}, kernels.Tensor{}, kernels.Tensor{}
		}
		ref.HeadNormRope(out, x, w, rstd, heads, pos, rope, eps)
		near(t, "out", out.F32, forward(), 5e-7)

		loss := func() float64 { return inner(dout, forward()) }
		ref.HeadNormRopeBackward(dx, dw, dout, x, w, rstd, heads, pos, rope)
		near(t, "dx", dx.F32, slope(loss, xs), 1e-6)
		if norm {
			near(t, "dw", dw.F32, slope(loss, ws), 1e-6)
		}
	}
}

func TestNewRope(t *testing.T) {
	r := kernels.NewRope(8, 10000)
	near(t, "frequencies", r.InvFreq, []float64{1, 0.1, 0.01, 0.001}, 1e-7)
	cos, sin := make([]float32, 4), make([]float32, 4)
	r.Angles(cos, sin, 3)
	near(t, "cos", cos, []float64{math.Cos(3), math.Cos(.3), math.Cos(.03), math.Cos(.003)}, 1e-7)
	near(t, "sin", sin, []float64{math.Sin(3), math.Sin(.3), math.Sin(.03), math.Sin(.003)}, 1e-7)
}
