package cpu

import (
	"penstock/kernels"
	"penstock/kernels/internal/vec"
)

// SwiGLU: out = silu(gate)·up.
func (d *Device) SwiGLU(out, gate, up kernels.Tensor) {
	kernels.Want("SwiGLU", "gate", gate, out.Rows, out.Cols)
	kernels.Want("SwiGLU", "up", up, out.Rows, out.Cols)
	d.each(out.Len(), func(lo, hi int) { vec.SwiGLU(out.F32[lo:hi], gate.F32[lo:hi], up.F32[lo:hi]) })
}

// SwiGLUBackward: dgate = dout·up·silu'(gate), dup = dout·silu(gate).
func (d *Device) SwiGLUBackward(dgate, dup, dout, gate, up kernels.Tensor) {
	const op = "SwiGLUBackward"
	kernels.Want(op, "dgate", dgate, dout.Rows, dout.Cols)
	kernels.Want(op, "dup", dup, dout.Rows, dout.Cols)
	kernels.Want(op, "gate", gate, dout.Rows, dout.Cols)
	kernels.Want(op, "up", up, dout.Rows, dout.Cols)
	d.each(dout.Len(), func(lo, hi int) {
		vec.SwiGLUBackward(dgate.F32[lo:hi], dup.F32[lo:hi], dout.F32[lo:hi], gate.F32[lo:hi], up.F32[lo:hi])
	})
}
