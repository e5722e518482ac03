package kernelstest

import (
	"fmt"

	"penstock/kernels"
)

const eps = 1e-6

func normCases() []Case {
	all := each("RMSNorm", func(c *Call, d kernels.Device, r, n int) {
		d.RMSNorm(c.Out("out", r, n), c.In(r, n), c.Near(1, n), c.Out32("rstd", r, 1), eps)
	})
	all = append(all, each("RMSNorm", func(c *Call, d kernels.Device, r, n int) {
		d.RMSNorm(c.Out("out", r, n), c.In(r, n), c.Near(1, n), kernels.Tensor{}, eps)
	})...)
	for _, mode := range []string{"set", "accumulate", "weight only"} {
		all = append(all, each("RMSNormBackward", func(c *Call, d kernels.Device, r, n int) {
			var dx kernels.Tensor
			switch mode {
			case "set":
				dx = c.Out("dx", r, n)
			case "accumulate":
				dx = c.InOut("dx", r, n)
			}
			d.RMSNormBackward(dx, c.InOut32("dw", 1, n), c.In(r, n), c.In(r, n), c.Near(1, n), c.Near(r, 1), mode == "accumulate")
		})...)
	}
	for _, s := range [][3]int{{0, 2, 8}, {1, 1, 2}, {3, 3, 16}, {33, 2, 64}, {70, 5, 128}} {
		for _, norm := range []bool{true, false} {
			shape := fmt.Sprintf("t%d heads%d dim%d norm=%v", s[0], s[1], s[2], norm)
			all = append(all,
				Case{"HeadNormRope", shape, func(c *Call, d kernels.Device) { headNormRope(c, d, s[0], s[1], s[2], norm) }},
				Case{"HeadNormRopeBackward", shape, func(c *Call, d kernels.Device) { headNormRopeBackward(c, d, s[0], s[1], s[2], norm) }})
		}
	}
	return append(all, Case{"HeadNormRope", "in place", func(c *Call, d kernels.Device) {
		x := c.InOut("x", 19, 2*32)
		d.HeadNormRope(x, x, c.Near(1, 32), kernels.Tensor{}, 2, c.Rows(19, 4000), kernels.NewRope(32, 1e6), eps)
	}})
}

func headNormRope(c *Call, d kernels.Device, t, heads, dim int, norm bool) {
	var w, rstd kernels.Tensor
	if norm {
		w, rstd = c.Near(1, dim), c.Out32("rstd", t, heads)
	}
	d.HeadNormRope(c.Out("out", t, heads*dim), c.In(t, heads*dim), w, rstd, heads, c.Rows(t, 4000), kernels.NewRope(dim, 1e6), eps)
}

func headNormRopeBackward(c *Call, d kernels.Device, t, heads, dim int, norm bool) {
	var w, rstd, dw kernels.Tensor
	if norm {
		w, rstd, dw = c.Near(1, dim), c.Near(t, heads), c.InOut32("dw", 1, dim)
	}
	d.HeadNormRopeBackward(c.Out("dx", t, heads*dim), dw, c.In(t, heads*dim), c.In(t, heads*dim), w, rstd, heads, c.Rows(t, 4000), kernels.NewRope(dim, 1e4))
}
