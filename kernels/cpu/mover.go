package cpu

import (
	"penstock/kernels"
	"penstock/kernels/internal/vec"
)

// Zero: t = 0.
func (d *Device) Zero(t kernels.Tensor) {
	d.each(t.Len(), func(lo, hi int) { clear(t.F32[lo:hi]) })
}

// Copy: dst = src.
func (d *Device) Copy(dst, src kernels.Tensor) {
	kernels.Want("Copy", "src", src, dst.Rows, dst.Cols)
	d.each(dst.Len(), func(lo, hi int) { copy(dst.F32[lo:hi], src.F32[lo:hi]) })
}

// CopyCols: dst[:, at:at+src.Cols] = src.
func (d *Device) CopyCols(dst kernels.Tensor, at int, src kernels.Tensor) {
	kernels.CheckCopyCols(dst, at, src)
	d.rows(src.Rows, src.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(row(dst, i)[at:], row(src, i))
		}
	})
}

// Add: dst += src.
func (d *Device) Add(dst, src kernels.Tensor) {
	kernels.Want("Add", "src", src, dst.Rows, dst.Cols)
	d.each(dst.Len(), func(lo, hi int) { vec.Add(dst.F32[lo:hi], src.F32[lo:hi]) })
}

// Scale: t *= s.
func (d *Device) Scale(t kernels.Tensor, s float32) {
	d.each(t.Len(), func(lo, hi int) { vec.Scale(t.F32[lo:hi], t.F32[lo:hi], s) })
}

// ScaleRows: t[i] *= s[i].
func (d *Device) ScaleRows(t, s kernels.Tensor) {
	kernels.Want("ScaleRows", "s", s, t.Rows, 1)
	d.rows(t.Rows, t.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			vec.Scale(row(t, i), row(t, i), s.F32[i])
		}
	})
}

// AddBias: x[t] += b for every row t.
func (d *Device) AddBias(x, b kernels.Tensor) {
	kernels.Want("AddBias", "b", b, 1, x.Cols)
	d.rows(x.Rows, x.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			vec.Add(row(x, i), b.F32)
		}
	})
}

// Gather: out[i] = table[rows[i]].
func (d *Device) Gather(out, table kernels.Tensor, rows kernels.Index) {
	kernels.CheckGather(out, table, rows)
	d.rows(rows.N, out.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(row(out, i), row(table, int(rows.Host[i])))
		}
	})
}

// Scatter: out[rows[i]] = x[i].
func (d *Device) Scatter(out, x kernels.Tensor, rows kernels.Index) {
	kernels.CheckScatter(out, x, rows)
	d.rows(rows.N, out.Cols, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(row(out, int(rows.Host[i])), row(x, i))
		}
	})
}
