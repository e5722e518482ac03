package cpu

import (
	"math"

	"penstock/kernels"
	"penstock/kernels/gemm"
	"penstock/kernels/internal/vec"
)

// lossElements bounds the logits that stand at one time for one goroutine; lossRows is how many rows of them there
// are at most. Their number of parts is a multiple of lossParts, which few threads share evenly, and their number of
// rows one of lossUnit, which leaves no tile of the product partly filled.
const (
	lossElements = 1 << 21
	lossRows     = 64
	lossParts    = 4
	lossUnit     = 12
)

// lossRange returns the number of rows of a part.
func lossRange(rows, vocab int) int {
	size := min(lossRows, max(1, lossElements/max(1, vocab)))
	if rows <= size {
		return size
	}
	parts := ceil(ceil(rows, size), lossParts) * lossParts
	return min(size, ceil(ceil(rows, parts), lossUnit)*lossUnit)
}

// logits calls fn for ranges of rows of z = h·headᵀ. z has a stride of pad(V); the columns from V on are -Inf.
func (d *Device) logits(h, head kernels.Tensor, fn func(s *scratch, z gemm.Matrix, lo int)) {
	size := lossRange(h.Rows, head.Rows)
	helpers := d.team // of the product alone, when there is but one range
	if h.Rows > size {
		helpers = nil
	}
	d.ranges(h.Rows, size, func(lo, hi int) {
		s := d.borrow()
		defer d.work.Put(s)
		stride := pad(head.Rows)
		z := gemm.Matrix{Rows: hi - lo, Cols: head.Rows, Stride: stride, Data: grow(&s.p, (hi-lo)*stride)}
		d.path.Mul(helpers, z, matrix(h.RowRange(lo, hi)), matrix(head), false, true, 0)
		for i := range z.Rows {
			fill(z.Data[i*stride+head.Rows:(i+1)*stride], float32(math.Inf(-1)))
		}
		fn(s, z, lo)
	})
}

// HeadLoss: ce = logsumexp(z) - z[label]; hit = (label is the first maximum of z);
// dh = weight·(softmax(z) - onehot(label))·head.
func (d *Device) HeadLoss(ce, hit, dh, h, head, weight kernels.Tensor, labels kernels.Index) {
	kernels.CheckHeadLoss(ce, hit, dh, h, head, weight, labels)
	d.logits(h, head, func(s *scratch, z gemm.Matrix, lo int) {
		sums := grow(&s.lse, z.Rows)
		for i := range z.Rows {
			zi, label := z.Data[i*z.Stride:(i+1)*z.Stride], labels.Host[lo+i]
			top, own := vec.Max(zi), zi[label]
			if !hit.IsNil() {
				hit.F32[lo+i] = 0
				if own == top && first(zi, top) == int(label) {
					hit.F32[lo+i] = 1
				}
			}
			sums[i] = vec.ExpSum(zi, top)
			ce.F32[lo+i] = float32(math.Log(float64(sums[i])) + float64(top) - float64(own))
			zi[label] -= sums[i]
		}
		if dh.IsNil() {
			return
		}
		dhs := dh.RowRange(lo, lo+z.Rows)
		d.path.Mul(nil, matrix(dhs), z, matrix(head), false, false, 0)
		for i := range z.Rows {
			vec.Scale(row(dhs, i), row(dhs, i), weight.F32[lo+i]/sums[i])
		}
	})
}

// first returns the first place of v in x, 0 if there is none.
func first(x []float32, v float32) int {
	for i, w := range x {
		if w == v {
			return i
		}
	}
	return 0
}

func fill(x []float32, v float32) {
	for i := range x {
		x[i] = v
	}
}
