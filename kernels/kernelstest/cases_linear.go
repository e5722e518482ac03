package kernelstest

import (
	"fmt"

	"penstock/kernels"
)

func linearCases() []Case {
	var all []Case
	sizes := [][3]int{{0, 4, 4}, {4, 4, 0}, {1, 1, 1}, {1, 9, 1}, {7, 1, 300}, {1, 128, 96}, {5, 3, 7}, {17, 16, 33}, {64, 64, 64}, {65, 130, 31}, {3, 257, 129}, {130, 70, 260}}
	for _, s := range sizes {
		for flags := range 16 {
			ta, tb, beta, half := flags&1 != 0, flags&2 != 0, float32(flags>>2&1), flags&8 != 0
			shape := fmt.Sprintf("m%d n%d k%d ta=%v tb=%v beta=%v half=%v", s[0], s[1], s[2], ta, tb, beta, half)
			all = append(all, Case{"Gemm", shape, func(c *Call, d kernels.Device) { gemm(c, d, s[0], s[1], s[2], ta, tb, beta, half) }})
		}
	}
	all = append(all, each("SwiGLU", func(c *Call, d kernels.Device, r, n int) {
		d.SwiGLU(c.Out("out", r, n), c.Wide(r, n), c.In(r, n))
	})...)
	all = append(all, each("SwiGLU", func(c *Call, d kernels.Device, r, n int) {
		gate := c.InOut("gate", r, n)
		d.SwiGLU(gate, gate, c.In(r, n))
	})...)
	all = append(all, each("SwiGLUBackward", func(c *Call, d kernels.Device, r, n int) {
		d.SwiGLUBackward(c.Out("dgate", r, n), c.Out("dup", r, n), c.In(r, n), c.Wide(r, n), c.In(r, n))
	})...)
	return append(all, each("AddBias", func(c *Call, d kernels.Device, r, n int) { d.AddBias(c.InOut("x", r, n), c.In32(1, n)) })...)
}

func gemm(c *Call, d kernels.Device, m, n, k int, ta, tb bool, beta float32, half bool) {
	out := map[bool][2]func(name string, rows, cols int) kernels.Tensor{true: {c.Out, c.InOut}, false: {c.Out32, c.InOut32}}[half][int(beta)]
	am, ak, bk, bn := m, k, k, n
	if ta {
		am, ak = k, m
	}
	if tb {
		bk, bn = n, k
	}
	d.Gemm(out("c", m, n), c.In(am, ak), c.In(bk, bn), ta, tb, beta)
}

// Wide is In with values in [-16, 16], which reach the tails of an exponential.
func (c *Call) Wide(rows, cols int) kernels.Tensor {
	v := c.pattern(rows * cols)
	for i := range v {
		v[i] *= 16
	}
	return NewHalf(c.dev, rows, cols, v)
}
