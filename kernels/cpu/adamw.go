package cpu

import (
	"penstock/kernels"
	"penstock/kernels/internal/vec"
)

// AdamW updates w, m and v in place, element by element, as Ref does; half = w.
func (d *Device) AdamW(w, half, m, v, g kernels.Tensor, a kernels.Adam) {
	kernels.CheckAdamW(w, half, m, v, g)
	keep, step, root := a.Factors()
	f := vec.Adam{
		GradScale: a.GradScale, Rate1: 1 - a.Beta1, Beta2: a.Beta2, Rate2: 1 - a.Beta2,
		Root: root, Eps: a.Eps, Keep: keep, Step: step,
	}
	d.each(w.Len(), func(lo, hi int) { vec.AdamW(w.F32[lo:hi], m.F32[lo:hi], v.F32[lo:hi], g.F32[lo:hi], &f) })
	if !half.IsNil() {
		d.Copy(half, w)
	}
}
