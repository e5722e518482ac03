//go:build cuda

package cuda

import (
	"fmt"
	"slices"

	base "penstock/kernels"
)

var (
	kRMSNorm   = registerTyped("rms_norm", "rms_norm", 0)
	kRMSNormDX = registerTyped("rms_norm", "rms_norm_dx", 0)
	kRMSNormDW = registerTyped("rms_norm", "rms_norm_dw", 0)
	kAddParts  = register("add_parts", "add_parts", 0)
	kRope      = registerTyped("head_norm_rope", "head_norm_rope", 0)
	kRopeBack  = registerTyped("head_norm_rope", "head_norm_rope_backward", 0)
)

const (
	partRows = 32  // rows of a partial sum over rows, at least
	maxParts = 256 // partial sums of an op
	maxRope  = 256 // largest head
)

// overHeads is the grid of a kernel with one block a row of heads, and the lanes that hold a head: a pack of its first half each.
func overHeads(rows, heads, dim int, of base.Type) (g grid, lanes int) {
	for lanes = 1; lanes < packs(dim/2, of); {
		lanes *= 2
	}
	return grid{rows, 1, min(cuts(heads*lanes, 32)*32, blockThreads)}, lanes
}

// overColumns is the grid of add_parts.
func overColumns(cols int) grid { return grid{cuts(cols, 32), 1, 256} }

// RMSNorm: out = w·x·r, r = (mean(x²)+eps)^-½ per row.
func (d *Device) RMSNorm(out, x, w, rstd base.Tensor, eps float32) {
	const op = "RMSNorm"
	base.CheckRMSNorm(op, out, x, w, rstd)
	of := same(op, x, out)
	wide(op, w, rstd)
	to, from, by, r := at(op, out), at(op, x), at(op, w), at(op, rstd)
	d.enqueue(&call{op, []any{shape(x)}}, func() error {
		return d.launch(kRMSNorm[of], overRows(x.Rows, x.Cols, of), to, from, by, r, int32(x.Cols), eps)
	})
}

// RMSNormBackward: dx = or += ∂L/∂x, dw += ∂L/∂w.
func (d *Device) RMSNormBackward(dx, dw, dout, x, w, rstd base.Tensor, accumulate bool) {
	const op = "RMSNormBackward"
	base.CheckRMSNorm(op, dout, x, w, rstd)
	base.Want(op, "dw", dw, 1, x.Cols)
	if !dx.IsNil() {
		base.Want(op, "dx", dx, x.Rows, x.Cols)
	}
	of := same(op, x, dx, dout)
	wide(op, dw, w, rstd)
	to, sum, do, from, by, r := at(op, dx), at(op, dw), at(op, dout), at(op, x), at(op, w), at(op, rstd)
	d.enqueue(&call{op, []any{shape(x), accumulate}}, func() error {
		if x.Len() == 0 {
			return nil
		}
		if !dx.IsNil() {
			if err := d.launch(kRMSNormDX[of], overRows(x.Rows, x.Cols, of), to, do, from, by, r, int32(x.Cols), boolean(accumulate)); err != nil {
				return err
			}
		}
		part := max(partRows, (x.Rows+maxParts-1)/maxParts)
		parts := (x.Rows + part - 1) / part
		p, err := d.scratch(partials, bytesOf(parts*x.Cols))
		if err != nil {
			return err
		}
		g := grid{cuts(packs(x.Cols, of), blockThreads), parts, blockThreads}
		if err := d.launch(kRMSNormDW[of], g, p, do, from, r, int32(x.Rows), int32(x.Cols), int32(part)); err != nil {
			return err
		}
		return d.launch(kAddParts, overColumns(x.Cols), sum, p, int32(parts), int32(x.Cols))
	})
}

// HeadNormRope: per head, out = rope(RMSNorm(x_h, w), pos).
func (d *Device) HeadNormRope(out, x, w, rstd base.Tensor, heads int, pos base.Index, rope base.Rope, eps float32) {
	const op = "HeadNormRope"
	dim := base.CheckHeadNormRope(op, out, x, w, rstd, heads, pos, rope)
	of := same(op, x, out)
	wide(op, w, rstd)
	f := d.frequencies(op, rope, dim)
	to, from, by, r, p := at(op, out), at(op, x), at(op, w), at(op, rstd), address(pos.Ptr)
	d.enqueue(&call{op, []any{shape(x), heads}}, func() error {
		g, lanes := overHeads(x.Rows, heads, dim, of)
		return d.launch(kRope[of], g, to, from, by, r, p, f, int32(heads), int32(dim), int32(lanes), rope.Factor, eps)
	})
}

// HeadNormRopeBackward: dx = ∂L/∂x, dw += ∂L/∂w.
func (d *Device) HeadNormRopeBackward(dx, dw, dout, x, w, rstd base.Tensor, heads int, pos base.Index, rope base.Rope) {
	const op = "HeadNormRopeBackward"
	dim := base.CheckHeadNormRope(op, dout, x, w, rstd, heads, pos, rope)
	base.Want(op, "dx", dx, x.Rows, x.Cols)
	if !w.IsNil() {
		base.Want(op, "dw", dw, 1, dim)
	}
	of := same(op, x, dx, dout)
	wide(op, dw, w, rstd)
	f := d.frequencies(op, rope, dim)
	to, sum, do, from, by, r, p := at(op, dx), at(op, dw), at(op, dout), at(op, x), at(op, w), at(op, rstd), address(pos.Ptr)
	d.enqueue(&call{op, []any{shape(x), heads}}, func() error {
		parts := min(x.Rows, 4*maxParts)
		part, err := d.scratch(partials, bytesOf(parts*dim))
		if err != nil {
			return err
		}
		g, lanes := overHeads(parts, heads, dim, of)
		err = d.launch(kRopeBack[of], g, to, part, do, from, by, r, p, f, int32(x.Rows), int32(heads), int32(dim), int32(lanes), rope.Factor)
		if err != nil || w.IsNil() || parts == 0 {
			return err
		}
		return d.launch(kAddParts, overColumns(dim), sum, part, int32(parts), int32(dim))
	})
}

// ropeTable is a rope's frequencies on the device.
type ropeTable struct {
	frequencies []float32
	at          base.Tensor
}

// frequencies returns the rope's frequencies on the device, where each list stays.
func (d *Device) frequencies(op string, r base.Rope, dim int) address {
	if dim > maxRope || dim%2 != 0 {
		panic(fmt.Sprintf("cuda: %s: heads of %d: want an even number up to %d", op, dim, maxRope))
	}
	for _, t := range d.ropes {
		if slices.Equal(t.frequencies, r.InvFreq) {
			return address(t.at.Ptr)
		}
	}
	t := ropeTable{slices.Clone(r.InvFreq), d.Alloc(1, len(r.InvFreq))}
	d.Upload(t.at, t.frequencies)
	d.ropes = append(d.ropes, t)
	return address(t.at.Ptr)
}

func boolean(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
