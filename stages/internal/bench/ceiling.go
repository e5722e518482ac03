package bench

import (
	"context"
	"time"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/stages/internal/model"
)

// ceilingRows is how many rows the products of the ceiling have, at most.
const ceilingRows = 16384

// ceiling measures the matrix products of one layer, in the device's half type and in the shapes of the batches, one after
// the other for the time asked for: what is left of a device's speed when nothing else is done, and does not cool down.
func (o Options) ceiling(ctx context.Context, dev kernels.Device, g hf.Geometry) (tflops float64, err error) {
	rows := min(o.Batch*o.Lengths.Longest(), ceilingRows)
	fill := model.Repeat(dev, 3)
	matrix := func(rows, cols int) kernels.Tensor {
		t := dev.AllocHalf(rows, cols)
		if err == nil {
			err = fill(t, hf.Shape{Dims: []int{rows, cols}})
		}
		return t
	}
	type product struct{ y, x, w kernels.Tensor }
	var products []product
	var flops float64
	for _, s := range [][2]int{{g.HiddenSize, g.QSize()}, {g.HiddenSize, g.KVSize()}, {g.HiddenSize, g.KVSize()}, {g.QSize(), g.HiddenSize},
		{g.HiddenSize, g.IntermediateSize}, {g.HiddenSize, g.IntermediateSize}, {g.IntermediateSize, g.HiddenSize}} {
		products = append(products, product{dev.AllocHalf(rows, s[1]), matrix(rows, s[0]), matrix(s[1], s[0])})
		flops += 2 * float64(rows) * float64(s[0]) * float64(s[1])
	}
	layer := func() error {
		for _, p := range products {
			dev.Gemm(p.y, p.x, p.w, false, true, 0)
		}
		return dev.Sync()
	}
	if err == nil {
		err = layer()
	}
	began, layers := time.Now(), 0
	for err == nil && (layers == 0 || time.Since(began).Seconds() < o.Seconds) {
		if err = ctx.Err(); err == nil {
			err = layer()
			layers++
		}
	}
	return flops * float64(layers) / time.Since(began).Seconds() / 1e12, err
}
