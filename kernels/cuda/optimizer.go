//go:build cuda

package cuda

import (
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

var (
	kSumSquares    = register("sum_squares", "sum_squares", 0)
	kAdamW         = register("adamw", "adamw", 0)
	kCheckFeatures = registerTyped("check_features", "check_features", 0)
)

// maxChecks is the largest number of blocks that check features.
const maxChecks = 1056

// maxSums is the largest number of partial sums that are added on the host.
const maxSums = 1024

// SumSquares returns Σ t², in float64; the parts depend on the length alone.
func (d *Device) SumSquares(t base.Tensor) float64 {
	const op = "SumSquares"
	if t.Len() == 0 {
		return 0
	}
	wide(op, t)
	c, from := &call{op, []any{shape(t)}}, at(op, t)
	g := overElements(t.Len())
	g.x = min(g.x, maxSums)
	parts := make([]float64, g.x)
	p := d.result(c, int64(8*len(parts)))
	d.enqueue(c, func() error { return d.launch(kSumSquares, g, p, from, int64(t.Len())) })
	d.fetch(c, unsafe.Pointer(&parts[0]), p, int64(8*len(parts)))
	sum := 0.0
	for _, v := range parts {
		sum += v
	}
	return sum
}

// AdamW updates w, m and v in place from g; half receives w.
func (d *Device) AdamW(w, half, m, v, g base.Tensor, a base.Adam) {
	const op = "AdamW"
	base.CheckAdamW(w, half, m, v, g)
	wide(op, w, m, v, g)
	if !half.IsNil() && half.Type == base.Float32 {
		defer d.Copy(half, w)
		half = base.Tensor{}
	}
	keep, step, root := a.Factors()
	ws, hs, ms, vs, gs := at(op, w), at(op, half), at(op, m), at(op, v), at(op, g)
	d.enqueue(&call{op, []any{shape(w)}}, func() error {
		return d.launch(kAdamW, overElements(w.Len()), ws, hs, ms, vs, gs, int64(w.Len()), a.GradScale, a.Beta1, a.Beta2, a.Eps, keep, step, root)
	})
}

// CheckFeatures tests and sums x.
func (d *Device) CheckFeatures(x base.Tensor) base.FeatureCheck {
	var out checked
	c, from := &call{"CheckFeatures", []any{shape(x)}}, at("CheckFeatures", x)
	p := d.result(c, checkedBytes)
	d.enqueue(c, func() error { return d.check(p, from, x) })
	d.fetch(c, unsafe.Pointer(&out[0]), p, checkedBytes)
	return out.of(x)
}

// checked is what src/check_features.cu writes.
type checked [3]uint64

const checkedBytes = int64(unsafe.Sizeof(checked{}))

// check has x, which lies at from, tested and summed into p; it runs on the device's thread.
func (d *Device) check(p, from address, x base.Tensor) error {
	if err := cu.MemsetD8Async(cu.DevicePtr(p), 0, checkedBytes, d.stream); err != nil {
		return err
	}
	return d.launch(kCheckFeatures[x.Type], overRows(min(x.Rows, maxChecks), x.Cols, x.Type), p, from, int32(x.Rows), int32(x.Cols))
}

func (c checked) of(x base.Tensor) base.FeatureCheck {
	const infinity = 0x7F800000 // bits of |x| from which x is infinite or NaN
	if x.Len() == 0 {
		return base.FeatureCheck{Finite: true, Zero: true, Constant: x.Rows > 1}
	}
	return base.FeatureCheck{Finite: c[1] < infinity, Zero: c[1] == 0, Constant: x.Rows > 1 && c[2] == 0, Checksum: c[0]}
}
