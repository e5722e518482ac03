package kernels

// Add: dst += src.
func (*Ref) Add(dst, src Tensor) {
	Want("Add", "src", src, dst.Rows, dst.Cols)
	for i, v := range src.F32 {
		dst.F32[i] += v
	}
}
