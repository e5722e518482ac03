package cpu

import (
	"penstock/kernels"
	"penstock/kernels/internal/vec"
)

// SumSquares returns Σ t² in float64: chunks of a fixed size, added in their order.
func (d *Device) SumSquares(t kernels.Tensor) float64 {
	sums := make([]float64, ceil(t.Len(), chunk))
	d.each(t.Len(), func(lo, hi int) { sums[lo/chunk] = vec.SumSquares(t.F32[lo:hi]) })
	var total float64
	for _, s := range sums {
		total += s
	}
	return total
}
