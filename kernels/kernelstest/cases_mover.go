package kernelstest

import (
	"fmt"

	"penstock/kernels"
)

// shapes are [rows, columns] for ops without structure.
var shapes = [][2]int{{0, 5}, {1, 1}, {1, 7}, {3, 64}, {17, 33}, {130, 65}, {9, 1030}}

func each(op string, run func(c *Call, d kernels.Device, r, n int)) []Case {
	var cases []Case
	for _, s := range shapes {
		cases = append(cases, Case{op, fmt.Sprintf("%d×%d", s[0], s[1]), func(c *Call, d kernels.Device) { run(c, d, s[0], s[1]) }})
	}
	return cases
}

func moverCases() []Case {
	var all []Case
	add := func(op string, run func(c *Call, d kernels.Device, r, n int)) { all = append(all, each(op, run)...) }
	add("Zero", func(c *Call, d kernels.Device, r, n int) { d.Zero(c.Out("t", r, n)) })
	add("Copy", func(c *Call, d kernels.Device, r, n int) { d.Copy(c.Out("dst", r, n), c.In(r, n)) })
	add("Copy", func(c *Call, d kernels.Device, r, n int) { d.Copy(c.Out("dst", r, n), c.In32(r, n)) })
	add("Copy", func(c *Call, d kernels.Device, r, n int) { d.Copy(c.Out32("dst", r, n), c.In(r, n)) })
	add("CopyCols", func(c *Call, d kernels.Device, r, n int) {
		d.CopyCols(c.InOut("dst", r, 3*n+2), n+1, c.In(r, n))
	})
	add("Add", func(c *Call, d kernels.Device, r, n int) { d.Add(c.InOut("dst", r, n), c.In(r, n)) })
	add("Scale", func(c *Call, d kernels.Device, r, n int) { d.Scale(c.InOut("t", r, n), 0.3) })
	add("ScaleRows", func(c *Call, d kernels.Device, r, n int) { d.ScaleRows(c.InOut("t", r, n), c.In32(r, 1)) })
	add("Gather", func(c *Call, d kernels.Device, r, n int) {
		d.Gather(c.Out("out", r, n), c.In(41, n), c.Rows(r, 41))
	})
	add("Scatter", func(c *Call, d kernels.Device, r, n int) {
		d.Scatter(c.InOut("out", r+9, n), c.In(r, n), d.Index(Distinct(r, r+9)))
	})
	return all
}
