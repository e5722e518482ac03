package kernels

import "fmt"

// CheckCopyCols panics unless src fits into dst from column at.
func CheckCopyCols(dst Tensor, at int, src Tensor) {
	if src.Rows != dst.Rows || at < 0 || at+src.Cols > dst.Cols {
		panic(fmt.Sprintf("kernels: CopyCols: %d×%d into columns %d.. of %d×%d", src.Rows, src.Cols, at, dst.Rows, dst.Cols))
	}
}

// CopyCols: dst[:, at:at+src.Cols] = src.
func (*Ref) CopyCols(dst Tensor, at int, src Tensor) {
	CheckCopyCols(dst, at, src)
	for i := range src.Rows {
		copy(row(dst, i)[at:], row(src, i))
	}
}
