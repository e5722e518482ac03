package kernels

import "math"

// SwiGLU: out = silu(gate)·up, silu(x) = x/(1+e⁻ˣ).
func (*Ref) SwiGLU(out, gate, up Tensor) {
	Want("SwiGLU", "gate", gate, out.Rows, out.Cols)
	Want("SwiGLU", "up", up, out.Rows, out.Cols)
	for i, g := range gate.F32 {
		out.F32[i] = float32(float64(g) * sigmoid(g) * float64(up.F32[i]))
	}
}

// SwiGLUBackward: dgate = dout·up·silu'(gate), dup = dout·silu(gate); silu'(x) = σ(x)·(1 + x·(1-σ(x))).
func (*Ref) SwiGLUBackward(dgate, dup, dout, gate, up Tensor) {
	for _, o := range []struct {
		name string
		t    Tensor
	}{{"dgate", dgate}, {"dup", dup}, {"gate", gate}, {"up", up}} {
		Want("SwiGLUBackward", o.name, o.t, dout.Rows, dout.Cols)
	}
	for i, g := range gate.F32 {
		s, d := sigmoid(g), float64(dout.F32[i])
		dgate.F32[i] = float32(d * float64(up.F32[i]) * s * (1 + float64(g)*(1-s)))
		dup.F32[i] = float32(d * float64(g) * s)
	}
}

func sigmoid(x float32) float64 { return 1 / (1 + math.Exp(-float64(x))) }
