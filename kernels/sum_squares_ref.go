package kernels

// SumSquares returns Σ t² in float64.
func (*Ref) SumSquares(t Tensor) float64 { return dot(t.F32, t.F32) }
