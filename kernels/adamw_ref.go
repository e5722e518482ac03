package kernels

import "math"

// CheckAdamW panics unless w, m, v, g, and half if it is not nil, have one shape.
func CheckAdamW(w, half, m, v, g Tensor) {
	if !half.IsNil() {
		Want("AdamW", "half", half, w.Rows, w.Cols)
	}
	Want("AdamW", "m", m, w.Rows, w.Cols)
	Want("AdamW", "v", v, w.Rows, w.Cols)
	Want("AdamW", "g", g, w.Rows, w.Cols)
}

// Factors returns what an update multiplies by: keep = 1 - LR·Decay, step = LR/(1-Beta1^Step) and
// root = 1/√(1-Beta2^Step), computed in float64.
func (a Adam) Factors() (keep, step, root float32) {
	n := float64(a.Step)
	step64 := float64(a.LR) / (1 - math.Pow(float64(a.Beta1), n))
	return float32(1 - float64(a.LR)*float64(a.Decay)), float32(step64), float32(1 / math.Sqrt(1-math.Pow(float64(a.Beta2), n)))
}

// AdamW: g' = GradScale·g; m = β₁m + (1-β₁)g'; v = β₂v + (1-β₂)g'²;
// w = w·(1 - LR·Decay) - LR/(1-β₁ᵗ) · m / (√v/√(1-β₂ᵗ) + Eps).
// half = w.
func (*Ref) AdamW(w, half, m, v, g Tensor, a Adam) {
	CheckAdamW(w, half, m, v, g)
	keep, step, root := a.Factors()
	for i, gi := range g.F32 {
		gi *= a.GradScale
		m.F32[i] += (gi - m.F32[i]) * (1 - a.Beta1)
		v.F32[i] = a.Beta2*v.F32[i] + (1-a.Beta2)*gi*gi
		den := float32(math.Sqrt(float64(v.F32[i])))*root + a.Eps
		w.F32[i] = w.F32[i]*keep - step*(m.F32[i]/den)
	}
	copy(half.F32, w.F32)
}
