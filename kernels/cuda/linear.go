//go:build cuda

package cuda

import (
	"gorgonia.org/cu"

	base "penstock/kernels"
)

var (
	kSwiGLU         = registerTyped("swiglu", "swiglu", 0)
	kSwiGLUBackward = registerTyped("swiglu", "swiglu_backward", 0)
)

// Gemm: c = op(a)·op(b) + beta·c, by cuBLASLt, with sums of float32. a and b have one type; c may be float32 all the same. A
// product that is added to c in a half type may be rounded to it before.
func (d *Device) Gemm(c, a, b base.Tensor, ta, tb bool, beta float32) {
	m, n, k := base.CheckGemm(c, a, b, ta, tb, beta)
	p := product{m, n, k, ta, tb, beta, same("Gemm", a, b), c.Type}
	to, x, y := at("Gemm", c), at("Gemm", a), at("Gemm", b)
	d.enqueue(&call{"Gemm", []any{shape(c), shape(a), shape(b), ta, tb, beta}}, func() error {
		switch {
		case m == 0 || n == 0:
			return nil
		case k > 0:
			return d.product(to, x, y, p)
		case beta == 0:
			return cu.MemsetD8Async(cu.DevicePtr(to), 0, int64(c.Bytes()), d.stream)
		}
		return nil
	})
}

// SwiGLU: out = silu(gate)·up.
func (d *Device) SwiGLU(out, gate, up base.Tensor) {
	const op = "SwiGLU"
	base.Want(op, "gate", gate, out.Rows, out.Cols)
	base.Want(op, "up", up, out.Rows, out.Cols)
	of := same(op, out, gate, up)
	to, g, u := at(op, out), at(op, gate), at(op, up)
	d.enqueue(&call{op, []any{shape(out)}}, func() error {
		return d.launch(kSwiGLU[of], overPacks(out.Len(), of), to, g, u, int64(out.Len()))
	})
}

// SwiGLUBackward: dgate = dout·up·silu'(gate), dup = dout·silu(gate).
func (d *Device) SwiGLUBackward(dgate, dup, dout, gate, up base.Tensor) {
	const op = "SwiGLUBackward"
	base.Want(op, "dgate", dgate, dout.Rows, dout.Cols)
	base.Want(op, "dup", dup, dout.Rows, dout.Cols)
	base.Want(op, "gate", gate, dout.Rows, dout.Cols)
	base.Want(op, "up", up, dout.Rows, dout.Cols)
	of := same(op, dout, dgate, dup, gate, up)
	dg, du, do, g, u := at(op, dgate), at(op, dup), at(op, dout), at(op, gate), at(op, up)
	d.enqueue(&call{op, []any{shape(dout)}}, func() error {
		return d.launch(kSwiGLUBackward[of], overPacks(dout.Len(), of), dg, du, do, g, u, int64(dout.Len()))
	})
}
