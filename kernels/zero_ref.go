package kernels

// Zero: t = 0.
func (*Ref) Zero(t Tensor) { clear(t.F32) }
