package cpu

import (
	"math"

	"penstock/kernels"
)

const infinity = 0x7F800000 // bits of |x| from which x is infinite or NaN

// CheckFeatures tests and sums x.
func (d *Device) CheckFeatures(x kernels.Tensor) kernels.FeatureCheck {
	type part struct {
		top      uint32 // largest bits of |x|
		checksum uint64
	}
	parts := make([]part, ceil(x.Len(), chunk))
	d.each(x.Len(), func(lo, hi int) {
		p := part{checksum: kernels.CheckSumFrom(x.F32[lo:hi], lo)}
		for _, v := range x.F32[lo:hi] {
			p.top = max(p.top, math.Float32bits(v)&^(1<<31))
		}
		parts[lo/chunk] = p
	})
	c := kernels.FeatureCheck{Finite: true, Zero: true, Constant: constant(x)}
	for _, p := range parts {
		c.Finite = c.Finite && p.top < infinity
		c.Zero = c.Zero && p.top == 0
		c.Checksum += p.checksum
	}
	return c
}

// constant tells whether x has several rows that all equal the first. As a rule the second one settles it.
func constant(x kernels.Tensor) bool {
	for i := 0; i < x.Len(); i++ {
		if x.F32[i] != x.F32[i%x.Cols] {
			return false
		}
	}
	return x.Rows > 1
}
