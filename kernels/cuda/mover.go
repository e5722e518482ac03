//go:build cuda

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

var (
	kAdd       = registerTyped("add", "add", 0)
	kScale     = registerTyped("scale", "scale", 0)
	kScaleRows = registerTyped("scale_rows", "scale_rows", 0)
	kAddBias   = registerTyped("add_bias", "add_bias", 0)
	kCopyCols  = registerTyped("copy_cols", "copy_cols", 0)
	kGather    = registerTyped("gather", "gather", 0)
	kScatter   = registerTyped("scatter", "scatter", 0)
	kRound     = register("convert", "round_bf16", 0)
	kWiden     = register("convert", "widen_bf16", 0)
)

const (
	blockThreads = 256
	maxBlocks    = 4096 // of a kernel whose threads go on to the next element
)

// overElements is the grid of a kernel that loops over n elements.
func overElements(n int) grid {
	return grid{min((n+blockThreads-1)/blockThreads, maxBlocks), 1, blockThreads}
}

// packs is the number of 16-byte accesses that cover n elements.
func packs(n int, of base.Type) int { return cuts(n, 16/of.Bytes()) }

// overPacks is the grid of a kernel that loops over the packs of n elements.
func overPacks(n int, of base.Type) grid { return overElements(packs(n, of)) }

// overRows is the grid of a kernel with one block a row.
func overRows(rows, cols int, of base.Type) grid { return wideRows(rows, cols, of, blockThreads) }

// wideRows is overRows with up to so many threads a row.
func wideRows(rows, cols int, of base.Type, most int) grid {
	threads := 32
	for threads < min(packs(cols, of), most) {
		threads *= 2
	}
	if cols == 0 {
		rows = 0
	}
	return grid{rows, 1, threads}
}

// Zero: t = 0.
func (d *Device) Zero(t base.Tensor) {
	p := at("Zero", t)
	d.enqueue(&call{"Zero", []any{shape(t)}}, func() error {
		if t.Len() == 0 {
			return nil
		}
		return cu.MemsetD8Async(cu.DevicePtr(p), 0, int64(t.Bytes()), d.stream)
	})
}

// Copy: dst = src, converted where the types differ.
func (d *Device) Copy(dst, src base.Tensor) {
	base.Want("Copy", "src", src, dst.Rows, dst.Cols)
	to, from := at("Copy", dst), at("Copy", src)
	d.enqueue(&call{"Copy", []any{shape(dst), shape(src)}}, func() error {
		switch {
		case dst.Len() == 0:
			return nil
		case dst.Type == src.Type:
			return cu.MemcpyDtoDAsync(cu.DevicePtr(to), cu.DevicePtr(from), int64(dst.Bytes()), d.stream)
		case dst.Type == base.BFloat16:
			return d.launch(kRound, overPacks(dst.Len(), base.Float32), to, from, int64(dst.Len()))
		}
		return d.launch(kWiden, overPacks(dst.Len(), base.Float32), to, from, int64(dst.Len()))
	})
}

// CopyCols: dst[:, at:at+src.Cols] = src.
func (d *Device) CopyCols(dst base.Tensor, col int, src base.Tensor) {
	base.CheckCopyCols(dst, col, src)
	of := same("CopyCols", dst, src)
	to, from := at("CopyCols", dst), at("CopyCols", src)
	d.enqueue(&call{"CopyCols", []any{shape(dst), col, shape(src)}}, func() error {
		return d.launch(kCopyCols[of], overRows(src.Rows, src.Cols, of), to, from, int32(dst.Cols), int32(col), int32(src.Cols))
	})
}

// Add: dst += src.
func (d *Device) Add(dst, src base.Tensor) {
	base.Want("Add", "src", src, dst.Rows, dst.Cols)
	of := same("Add", dst, src)
	to, from := at("Add", dst), at("Add", src)
	d.enqueue(&call{"Add", []any{shape(dst)}}, func() error {
		return d.launch(kAdd[of], overPacks(dst.Len(), of), to, from, int64(dst.Len()))
	})
}

// Scale: t *= s.
func (d *Device) Scale(t base.Tensor, s float32) {
	p := at("Scale", t)
	d.enqueue(&call{"Scale", []any{shape(t), s}}, func() error {
		return d.launch(kScale[t.Type], overPacks(t.Len(), t.Type), p, s, int64(t.Len()))
	})
}

// ScaleRows: t[i] *= s[i].
func (d *Device) ScaleRows(t, s base.Tensor) {
	base.Want("ScaleRows", "s", s, t.Rows, 1)
	wide("ScaleRows", s)
	p, by := at("ScaleRows", t), at("ScaleRows", s)
	d.enqueue(&call{"ScaleRows", []any{shape(t)}}, func() error {
		return d.launch(kScaleRows[t.Type], overRows(t.Rows, t.Cols, t.Type), p, by, int32(t.Cols))
	})
}

// AddBias: x[t] += b for every row t.
func (d *Device) AddBias(x, b base.Tensor) {
	base.Want("AddBias", "b", b, 1, x.Cols)
	wide("AddBias", b)
	p, bias := at("AddBias", x), at("AddBias", b)
	d.enqueue(&call{"AddBias", []any{shape(x)}}, func() error {
		return d.launch(kAddBias[x.Type], overRows(x.Rows, x.Cols, x.Type), p, bias, int32(x.Cols))
	})
}

// Gather: out[i] = table[rows[i]].
func (d *Device) Gather(out, table base.Tensor, rows base.Index) {
	base.CheckGather(out, table, rows)
	within("Gather", "table", rows, table.Rows)
	of := same("Gather", out, table)
	to, from, list := at("Gather", out), at("Gather", table), address(rows.Ptr)
	d.enqueue(&call{"Gather", []any{shape(out), shape(table)}}, func() error {
		return d.launch(kGather[of], overRows(rows.N, out.Cols, of), to, from, list, int32(out.Cols))
	})
}

// Scatter: out[rows[i]] = x[i].
func (d *Device) Scatter(out, x base.Tensor, rows base.Index) {
	base.CheckScatter(out, x, rows)
	within("Scatter", "out", rows, out.Rows)
	of := same("Scatter", out, x)
	to, from, list := at("Scatter", out), at("Scatter", x), address(rows.Ptr)
	d.enqueue(&call{"Scatter", []any{shape(out), shape(x)}}, func() error {
		return d.launch(kScatter[of], overRows(rows.N, out.Cols, of), to, from, list, int32(out.Cols))
	})
}

// within panics unless every entry is a row of the operand called name: a stray access would cost the whole context.
func within(op, name string, rows base.Index, n int) {
	for i, r := range rows.Host {
		if r < 0 || int(r) >= n {
			panic(fmt.Sprintf("cuda: %s: entry %d is row %d of %s, which has %d", op, i, r, name, n))
		}
	}
}
