package kernels

// Argmax returns the first maximum of h_i·headᵀ for each row of h.
func (*Ref) Argmax(h, head Tensor) []int32 {
	Want("Argmax", "head", head, head.Rows, h.Cols)
	z, top := make([]float64, head.Rows), make([]int32, h.Rows)
	for i := range top {
		top[i] = int32(headLogits(z, row(h, i), head))
	}
	return top
}
