package cpu

import (
	"math"

	"penstock/kernels"
	"penstock/kernels/gemm"
	"penstock/kernels/internal/vec"
)

// tileRows is about how many rows of scores a tile of attention has: enough to repay packing its keys.
const tileRows = 96

// group is the query heads that read one key head: rows of a tile are (query, head of the group), the head fastest.
type group struct {
	kernels.Heads
	kv    int
	share int // query heads that read the key head
}

func newGroup(h kernels.Heads, kv int) group { return group{Heads: h, kv: kv, share: h.Q / h.KV} }

// queries is how many queries make a tile.
func (g group) queries() int { return max(1, tileRows/g.share) }

// gather: dst [(hi-lo)·share, dim] = scale·x, the group's columns of rows [lo, hi).
func (g group) gather(dst []float32, x kernels.Tensor, lo, hi int, scale float32) {
	n := g.share * g.Dim
	for i := lo; i < hi; i++ {
		at := i*x.Cols + g.kv*n
		vec.Scale(dst[(i-lo)*n:(i-lo+1)*n], x.F32[at:at+n], scale)
	}
}

// scatter: x = scale·src, the inverse of gather.
func (g group) scatter(x kernels.Tensor, src []float32, lo, hi int, scale float32) {
	n := g.share * g.Dim
	for i := lo; i < hi; i++ {
		at := i*x.Cols + g.kv*n
		vec.Scale(x.F32[at:at+n], src[(i-lo)*n:(i-lo+1)*n], scale)
	}
}

// keys views rows [lo, hi) of the group's key head.
func (g group) keys(t kernels.Tensor, lo, hi int) gemm.Matrix {
	return headMatrix(t, lo, hi, g.kv, g.Dim)
}

// scores is a tile of scores, then of probabilities: row i is data[i·stride : (i+1)·stride].
type scores struct {
	rows, stride int
	data         []float32
}

func (s scores) row(i int) []float32 { return s.data[i*s.stride : (i+1)*s.stride : (i+1)*s.stride] }

// part views columns [lo, hi) of rows [i, j).
func (s scores) part(i, j, lo, hi int) gemm.Matrix {
	return gemm.Matrix{Rows: j - i, Cols: hi - lo, Stride: s.stride, Data: s.data[i*s.stride+lo:]}
}

// mask sets x to -Inf outside of [lo, hi) up to the next multiple of 16 from hi, and returns that part of x.
func mask(x []float32, lo, hi int) []float32 {
	end := min(pad(hi), len(x))
	fill(x[:lo], negInf)
	fill(x[hi:end], negInf)
	return x[:end]
}

var negInf = float32(math.Inf(-1))

// softmax replaces the scores x by e^(x-max) and returns max and the sum.
func softmax(x []float32) (top, sum float32) {
	top = vec.Max(x)
	return top, vec.ExpSum(x, top)
}
