package cpu

import (
	"penstock/kernels"
	"penstock/kernels/gemm"
	"penstock/kernels/internal/vec"
)

// Argmax returns the first maximum of h_i·headᵀ for each row of h.
func (d *Device) Argmax(h, head kernels.Tensor) []int32 {
	kernels.Want("Argmax", "head", head, head.Rows, h.Cols)
	top := make([]int32, h.Rows)
	d.logits(h, head, func(_ *scratch, z gemm.Matrix, lo int) {
		for i := range z.Rows {
			zi := z.Data[i*z.Stride : (i+1)*z.Stride]
			top[lo+i] = int32(first(zi, vec.Max(zi)))
		}
	})
	return top
}
