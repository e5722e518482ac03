package kernels_test

import (
	"slices"
	"testing"

	"penstock/kernels"
)

// count is a tensor whose element (i, j) is from + 10·i + j.
func count(rows, cols int, from float32) kernels.Tensor {
	t := ref.Alloc(rows, cols)
	for i := range t.F32 {
		t.F32[i] = from + float32(10*(i/cols)+i%cols)
	}
	return t
}

func TestMover(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t kernels.Tensor)
		want []float32 // of a 3×2 tensor 0 1 / 10 11 / 20 21
	}{
		{"Zero", func(x kernels.Tensor) { ref.Zero(x) }, []float32{0, 0, 0, 0, 0, 0}},
		{"Copy", func(x kernels.Tensor) { ref.Copy(x, count(3, 2, 100)) }, []float32{100, 101, 110, 111, 120, 121}},
		{"CopyCols", func(x kernels.Tensor) { ref.CopyCols(x, 1, count(3, 1, 5)) }, []float32{0, 5, 10, 15, 20, 25}},
		{"Add", func(x kernels.Tensor) { ref.Add(x, count(3, 2, 1)) }, []float32{1, 3, 21, 23, 41, 43}},
		{"Scale", func(x kernels.Tensor) { ref.Scale(x, -2) }, []float32{0, -2, -20, -22, -40, -42}},
		{"ScaleRows", func(x kernels.Tensor) { ref.ScaleRows(x, count(3, 1, 1)) }, []float32{0, 1, 110, 121, 420, 441}},
		{"Gather", func(x kernels.Tensor) { ref.Gather(x, count(5, 2, 0), ref.Index([]int32{4, 0, 4})) }, []float32{40, 41, 0, 1, 40, 41}},
		{"Scatter", func(x kernels.Tensor) { ref.Scatter(x, count(2, 2, 5), ref.Index([]int32{2, 0})) }, []float32{15, 16, 10, 11, 5, 6}},
		{"AddBias", func(x kernels.Tensor) { ref.AddBias(x, kernels.Host(1, 2, []float32{3, 4})) }, []float32{3, 5, 13, 15, 23, 25}},
		{"Upload", func(x kernels.Tensor) { ref.Upload(x, []float32{6, 5, 4, 3, 2, 1}) }, []float32{6, 5, 4, 3, 2, 1}},
	} {
		x := count(3, 2, 0)
		c.run(x)
		if !slices.Equal(x.F32, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, x.F32, c.want)
		}
	}
}

func TestShapeMismatchPanics(t *testing.T) {
	for name, call := range map[string]func(){
		"Copy":      func() { ref.Copy(in(2, 3, 1), in(3, 2, 2)) },
		"CopyCols":  func() { ref.CopyCols(in(2, 3, 1), 2, in(2, 2, 2)) },
		"Gather":    func() { ref.Gather(in(2, 3, 1), in(9, 3, 2), ref.Index([]int32{1})) },
		"Gemm k":    func() { ref.Gemm(in(2, 2, 1), in(2, 3, 2), in(4, 2, 3), false, false, 0) },
		"Gemm beta": func() { ref.Gemm(in(2, 2, 1), in(2, 3, 2), in(3, 2, 3), false, false, 2) },
		"RMSNorm":   func() { ref.RMSNorm(in(2, 3, 1), in(2, 3, 2), in(1, 2, 3), kernels.Tensor{}, 0) },
		"RowRange":  func() { in(2, 3, 1).RowRange(1, 3) },
		"Heads": func() {
			ref.CausalAttention(in(1, 6, 1), in(1, 6, 1), in(1, 4, 1), in(1, 4, 1), nil, kernels.Heads{Q: 3, KV: 2, Dim: 2})
		},
		"unsorted blocks": func() {
			x, kv := in(2, 2, 1), in(9, 2, 2)
			ref.BlockAttention(x, in(2, 1, 3), x, kv, kv, x, x, []kernels.Block{{Anchor: 4}, {Anchor: 2}}, 1, kernels.Heads{Q: 1, KV: 1, Dim: 2})
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}
