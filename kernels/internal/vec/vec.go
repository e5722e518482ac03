// Package vec holds loops over float32 slices, in AVX2 and in portable Go; exponentials in AVX-512 too. The vectors of
// a call have the length of its first one. Lengths that are multiples of 16 are fastest; the rest of a length goes
// through the portable loop. Sums run in an order that depends on the length alone.
package vec

// lanes is the multiple that the assembly takes.
const lanes = 16

// whole returns the part of n for the assembly: none where there is no AVX2.
func whole(n int) int {
	if !hasAVX2 {
		return 0
	}
	return n &^ (lanes - 1)
}

// Max returns the largest element of x, which must not be empty. With NaN among them the result is any element.
func Max(x []float32) float32 {
	top := x[0]
	n := whole(len(x))
	if n > 0 {
		top = maxAVX2(n, &x[0])
	}
	return maxGo(top, x[n:])
}

// Dot returns Σ a·b.
func Dot(a, b []float32) (s float32) {
	b = b[:len(a)]
	n := whole(len(a))
	if n > 0 {
		s = dotAVX2(n, &a[0], &b[0])
	}
	return s + dotGo(a[n:], b[n:])
}

// Dot3 returns Σ a·b·c.
func Dot3(a, b, c []float32) (s float32) {
	b, c = b[:len(a)], c[:len(a)]
	n := whole(len(a))
	if n > 0 {
		s = dot3AVX2(n, &a[0], &b[0], &c[0])
	}
	return s + dot3Go(a[n:], b[n:], c[n:])
}

// SumSquares returns Σ x² in float64.
func SumSquares(x []float32) (s float64) {
	n := whole(len(x))
	if n > 0 {
		s = sumSquaresAVX2(n, &x[0])
	}
	return s + sumSquaresGo(x[n:])
}

// ExpSum sets x = e^(x-shift) and returns Σ x. The result has 2 units in the last place; below e^-87.3365 it is 0, and above
// e^88.3762 it may stay there. -Inf gives 0, NaN gives NaN.
func ExpSum(x []float32, shift float32) (s float32) {
	n := whole(len(x))
	switch {
	case n == 0:
	case hasAVX512:
		s = expSumAVX512(n, &x[0], shift)
	default:
		s = expSumAVX2(n, &x[0], shift)
	}
	return s + expSumGo(x[n:], shift)
}

// SwiGLU: out = silu(gate)·up. out may be gate.
func SwiGLU(out, gate, up []float32) {
	gate, up = gate[:len(out)], up[:len(out)]
	n := whole(len(out))
	if n > 0 {
		swigluAVX2(n, &out[0], &gate[0], &up[0])
	}
	swigluGo(out[n:], gate[n:], up[n:])
}

// SwiGLUBackward: dgate = dout·up·silu'(gate), dup = dout·silu(gate).
func SwiGLUBackward(dgate, dup, dout, gate, up []float32) {
	size := len(dgate)
	dup, dout, gate, up = dup[:size], dout[:size], gate[:size], up[:size]
	n := whole(size)
	if n > 0 {
		swigluBackwardAVX2(n, &dgate[0], &dup[0], &dout[0], &gate[0], &up[0])
	}
	swigluBackwardGo(dgate[n:], dup[n:], dout[n:], gate[n:], up[n:])
}

// Add: dst += src.
func Add(dst, src []float32) {
	src = src[:len(dst)]
	n := whole(len(dst))
	if n > 0 {
		addAVX2(n, &dst[0], &src[0])
	}
	addGo(dst[n:], src[n:])
}

// Scale: dst = x·s. dst may be x.
func Scale(dst, x []float32, s float32) {
	x = x[:len(dst)]
	n := whole(len(dst))
	if n > 0 {
		scaleAVX2(n, &dst[0], &x[0], s)
	}
	scaleGo(dst[n:], x[n:], s)
}

// ScaledDifference: x = p·(x-delta).
func ScaledDifference(x, p []float32, delta float32) {
	p = p[:len(x)]
	n := whole(len(x))
	if n > 0 {
		scaledDifferenceAVX2(n, &x[0], &p[0], delta)
	}
	scaledDifferenceGo(x[n:], p[n:], delta)
}

// Rope turns the pairs (x[i], y[i]): lo = x·cos - y·sin, hi = y·cos + x·sin. With both pairs of vectors exchanged,
// Rope(hi, lo, y, x, cos, sin), it turns them back. lo and hi may be x and y.
func Rope(lo, hi, x, y, cos, sin []float32) {
	size := len(lo)
	hi, x, y, cos, sin = hi[:size], x[:size], y[:size], cos[:size], sin[:size]
	n := whole(size)
	if n > 0 {
		ropeAVX2(n, &lo[0], &hi[0], &x[0], &y[0], &cos[0], &sin[0])
	}
	ropeGo(lo[n:], hi[n:], x[n:], y[n:], cos[n:], sin[n:])
}

// Norm: out = w·(x·r).
func Norm(out, x, w []float32, r float32) {
	x, w = x[:len(out)], w[:len(out)]
	n := whole(len(out))
	if n > 0 {
		normAVX2(n, &out[0], &x[0], &w[0], r)
	}
	normGo(out[n:], x[n:], w[n:], r)
}

// NormInputGrad: dx = r·(dout·w - x·m), added to dx if add.
func NormInputGrad(dx, dout, x, w []float32, r, m float32, add bool) {
	size := len(dx)
	dout, x, w = dout[:size], x[:size], w[:size]
	n := whole(size)
	if n > 0 {
		normInputGradAVX2(n, &dx[0], &dout[0], &x[0], &w[0], r, m, add)
	}
	normInputGradGo(dx[n:], dout[n:], x[n:], w[n:], r, m, add)
}

// NormWeightGrad: dw += dout·(x·r).
func NormWeightGrad(dw, dout, x []float32, r float32) {
	dout, x = dout[:len(dw)], x[:len(dw)]
	n := whole(len(dw))
	if n > 0 {
		normWeightGradAVX2(n, &dw[0], &dout[0], &x[0], r)
	}
	normWeightGradGo(dw[n:], dout[n:], x[n:], r)
}

// Adam holds the factors of AdamW.
type Adam struct {
	GradScale float32
	Rate1     float32 // 1 - β₁
	Beta2     float32
	Rate2     float32 // 1 - β₂
	Root      float32 // 1 / √(1-β₂ᵗ)
	Eps       float32
	Keep      float32 // 1 - rate·decay
	Step      float32 // rate / (1-β₁ᵗ)
}

// AdamW: g' = GradScale·g; m += (g'-m)·Rate1; v = Beta2·v + Rate2·g'²; w = Keep·w - Step·m/(√v·Root + Eps).
func AdamW(w, m, v, g []float32, a *Adam) {
	size := len(w)
	m, v, g = m[:size], v[:size], g[:size]
	n := whole(size)
	if n > 0 {
		adamwAVX2(n, &w[0], &m[0], &v[0], &g[0], a)
	}
	adamwGo(w[n:], m[n:], v[n:], g[n:], a)
}
