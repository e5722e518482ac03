package kernels

// Scale: t *= s.
func (*Ref) Scale(t Tensor, s float32) {
	for i := range t.F32 {
		t.F32[i] *= s
	}
}
