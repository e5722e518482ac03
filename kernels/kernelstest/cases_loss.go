package kernelstest

import (
	"fmt"

	"penstock/kernels"
)

// projections are [rows, hidden, vocabulary].
var projections = [][3]int{{0, 8, 16}, {1, 1, 1}, {3, 16, 5}, {37, 64, 1000}, {130, 33, 257}}

func lossCases() []Case {
	var all []Case
	for _, s := range projections {
		rows, hidden, vocab := s[0], s[1], s[2]
		shape := fmt.Sprintf("rows %d hidden %d vocabulary %d", rows, hidden, vocab)
		all = append(all,
			Case{"HeadLoss", shape, func(c *Call, d kernels.Device) {
				d.HeadLoss(c.Out32("ce", rows, 1), c.Out32("hit", rows, 1), c.Out("dh", rows, hidden),
					c.In(rows, hidden), c.In(vocab, hidden), c.In32(rows, 1), c.Rows(rows, vocab))
			}},
			Case{"HeadLoss", shape + ", loss only", func(c *Call, d kernels.Device) {
				d.HeadLoss(c.Out32("ce", rows, 1), kernels.Tensor{}, kernels.Tensor{},
					c.In(rows, hidden), c.In(vocab, hidden), kernels.Tensor{}, c.Rows(rows, vocab))
			}},
			Case{"Argmax", shape, func(c *Call, d kernels.Device) {
				h, head := c.In(rows, hidden), c.In(vocab, hidden)
				c.Value("top", floats(d.Argmax(h, head))...)
			}})
	}
	return append(all, Case{"Argmax", "all equal", func(c *Call, d kernels.Device) {
		c.Value("top", floats(d.Argmax(c.In(5, 16), d.AllocHalf(300, 16)))...)
	}})
}

func floats(v []int32) []float32 {
	f := make([]float32, len(v))
	for i, x := range v {
		f[i] = float32(x)
	}
	return f
}
