package kernels

// Copy: dst = src.
func (*Ref) Copy(dst, src Tensor) {
	Want("Copy", "src", src, dst.Rows, dst.Cols)
	copy(dst.F32, src.F32)
}
