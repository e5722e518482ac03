package cpu

import (
	"math"

	"penstock/kernels"
	"penstock/kernels/gemm"
	"penstock/kernels/internal/vec"
)

// blockTile is blocks [first, last) for one key head. Its scores have one row per slot and head of the group; the
// slots of a row's own block come first, then, from column front, context rows [lo, hi).
type blockTile struct {
	group
	first, last int
	lo, hi      int
	size        int // slots a block
	front       int
	scores      scores
	q           []float32 // scale·q, [rows, dim]
}

// BlockAttention: o = softmax(scale·q·[kc, kb]ᵀ)·[vc, vb] over what the slot sees, lse its log Σ exp.
func (d *Device) BlockAttention(o, lse, q, kc, vc, kb, vb kernels.Tensor, blocks []kernels.Block, blockSize int, h kernels.Heads) {
	kernels.CheckBlockAttention("BlockAttention", o, lse, q, kc, vc, kb, vb, blocks, blockSize, h)
	tasks := blockTasks(blocks, blockSize, h, math.MaxInt32)
	d.team.Run(len(tasks), func(i int) {
		s := d.borrow()
		defer d.work.Put(s)
		t := newBlockTile(s, newGroup(h, tasks[i].kv), blocks, tasks[i].first, tasks[i].last, blockSize)
		t.score(d.path, q, kc, kb)
		t.mask(blocks)
		t.write(d.path, s, o, lse, vc, vb)
	})
}

func newBlockTile(s *scratch, g group, blocks []kernels.Block, first, last, size int) *blockTile {
	t := &blockTile{group: g, first: first, last: last, size: size, front: pad(size), lo: math.MaxInt}
	for _, b := range blocks[first:last] {
		lo, _ := b.Sees(0, size, g.Heads)
		t.lo, t.hi = min(t.lo, lo), max(t.hi, int(b.Anchor))
	}
	t.scores.rows = (last - first) * t.blockRows()
	t.scores.stride = t.front + pad(t.hi-t.lo)
	t.scores.data = grow(&s.p, t.scores.rows*t.scores.stride)
	t.q = grow(&s.q, t.scores.rows*g.Dim)
	return t
}

// blockRows is the number of rows of one block.
func (t *blockTile) blockRows() int { return t.size * t.share }

// context views the context's columns of x, scores or what is shaped like them.
func (t *blockTile) context(x scores) gemm.Matrix {
	return x.part(0, x.rows, t.front, t.front+t.hi-t.lo)
}

// own views the columns of block n's slots in block n's rows.
func (t *blockTile) own(x scores, n int) gemm.Matrix {
	i := (n - t.first) * t.blockRows()
	return x.part(i, i+t.blockRows(), 0, t.size)
}

// all and block view a [rows, dim] buffer: wholly, and the rows of block n.
func (t *blockTile) all(x []float32) gemm.Matrix { return gemm.Dense(t.scores.rows, t.Dim, x) }

func (t *blockTile) block(x []float32, n int) gemm.Matrix {
	i := (n - t.first) * t.blockRows()
	return t.all(x).RowRange(i, i+t.blockRows())
}

// score computes scale·q·kᵀ for every column.
func (t *blockTile) score(path *gemm.Path, q, kc, kb kernels.Tensor) {
	t.gather(t.q, q, t.first*t.size, t.last*t.size, t.Scale)
	t.times(path, t.scores, t.q, kc, kb)
}

// times: x = y·[kc, kb]ᵀ, y [rows, dim].
func (t *blockTile) times(path *gemm.Path, x scores, y []float32, kc, kb kernels.Tensor) {
	path.Mul(nil, t.context(x), t.all(y), t.keys(kc, t.lo, t.hi), false, true, 0)
	for n := t.first; n < t.last; n++ {
		path.Mul(nil, t.own(x, n), t.block(y, n), t.keys(kb, n*t.size, (n+1)*t.size), false, true, 0)
	}
}

// sum: y = x·[vc, vb], the reverse of times.
func (t *blockTile) sum(path *gemm.Path, y []float32, x scores, vc, vb kernels.Tensor) {
	path.Mul(nil, t.all(y), t.context(x), t.keys(vc, t.lo, t.hi), false, false, 0)
	for n := t.first; n < t.last; n++ {
		path.Mul(nil, t.block(y, n), t.own(x, n), t.keys(vb, n*t.size, (n+1)*t.size), false, false, 1)
	}
}

// mask sets to -Inf every column that a row does not see.
func (t *blockTile) mask(blocks []kernels.Block) {
	for i := range t.scores.rows {
		n, slot := t.first+i/t.blockRows(), i%t.blockRows()/t.share
		lo, slots := blocks[n].Sees(slot, t.size, t.Heads)
		x := t.scores.row(i)
		fill(x[slots:t.front+lo-t.lo], negInf)
		fill(x[t.front+int(blocks[n].Anchor)-t.lo:], negInf)
	}
}

// write turns the scores into probabilities, and writes their mean of the values and their log Σ exp.
func (t *blockTile) write(path *gemm.Path, s *scratch, o, lse, vc, vb kernels.Tensor) {
	os, sums := grow(&s.o, t.scores.rows*t.Dim), grow(&s.lse, t.scores.rows)
	for i := range sums {
		var top float32
		top, sums[i] = softmax(t.scores.row(i))
		lse.F32[t.lseAt(i)] = float32(math.Log(float64(sums[i])) + float64(top))
	}
	t.sum(path, os, t.scores, vc, vb)
	for i, sum := range sums {
		x := os[i*t.Dim : (i+1)*t.Dim]
		vec.Scale(x, x, 1/sum)
	}
	t.scatter(o, os, t.first*t.size, t.last*t.size, 1)
}

// lseAt is where lse [N·B, Q] keeps row i.
func (t *blockTile) lseAt(i int) int {
	return (t.first*t.size+i/t.share)*t.Q + t.kv*t.share + i%t.share
}
