//go:build cuda

package cuda

import (
	"gorgonia.org/cu"

	base "penstock/kernels"
)

var (
	kSwiGLU         = register("swiglu", "swiglu", 0)
	kSwiGLUBackward = register("swiglu", "swiglu_backward", 0)
)

// Gemm: c = op(a)·op(b) + beta·c, by cuBLAS.
func (d *Device) Gemm(c, a, b base.Tensor, ta, tb bool, beta float32) {
	m, n, k := base.CheckGemm(c, a, b, ta, tb, beta)
	to, x, y := at("Gemm", c), at("Gemm", a), at("Gemm", b)
	d.enqueue(&call{"Gemm", []any{shape(c), shape(a), shape(b), ta, tb, beta}}, func() error {
		switch {
		case m == 0 || n == 0:
			return nil
		case k > 0:
			return d.blas.gemm(to, x, y, m, n, k, ta, tb, beta)
		case beta == 0:
			return cu.MemsetD8Async(cu.DevicePtr(to), 0, bytesOf(c.Len()), d.stream)
		}
		return nil
	})
}

// SwiGLU: out = silu(gate)·up.
func (d *Device) SwiGLU(out, gate, up base.Tensor) {
	const op = "SwiGLU"
	base.Want(op, "gate", gate, out.Rows, out.Cols)
	base.Want(op, "up", up, out.Rows, out.Cols)
	to, g, u := at(op, out), at(op, gate), at(op, up)
	d.enqueue(&call{op, []any{shape(out)}}, func() error {
		return d.launch(kSwiGLU, overElements(out.Len()), to, g, u, int64(out.Len()))
	})
}

// SwiGLUBackward: dgate = dout·up·silu'(gate), dup = dout·silu(gate).
func (d *Device) SwiGLUBackward(dgate, dup, dout, gate, up base.Tensor) {
	const op = "SwiGLUBackward"
	base.Want(op, "dgate", dgate, dout.Rows, dout.Cols)
	base.Want(op, "dup", dup, dout.Rows, dout.Cols)
	base.Want(op, "gate", gate, dout.Rows, dout.Cols)
	base.Want(op, "up", up, dout.Rows, dout.Cols)
	dg, du, do, g, u := at(op, dgate), at(op, dup), at(op, dout), at(op, gate), at(op, up)
	d.enqueue(&call{op, []any{shape(dout)}}, func() error {
		return d.launch(kSwiGLUBackward, overElements(dout.Len()), dg, du, do, g, u, int64(dout.Len()))
	})
}
