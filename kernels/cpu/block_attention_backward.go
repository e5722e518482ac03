package cpu

import (
	"penstock/kernels"
	"penstock/kernels/gemm"
	"penstock/kernels/internal/vec"
)

// blockGrads are the operands of the backward pass.
type blockGrads struct {
	dq, dkc, dvc, dkb, dvb        kernels.Tensor
	do, o, lse, q, kc, vc, kb, vb kernels.Tensor
}

// gradParts is the number of sums that a group's context gradients are taken in. It is fixed, so that they are.
const gradParts = 4

// BlockAttentionBackward: with p = exp(score - lse) and δ = do·o, dv_j = Σ p_j·do, ds_j = p_j·(do·v_j - δ),
// dq = scale·Σ ds_j·k_j, dk_j = scale·Σ ds_j·q. One goroutine at a time sums a part of a group for one key head, tile
// by tile; the parts are added in their order.
func (d *Device) BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb kernels.Tensor, blocks []kernels.Block, blockSize int, h kernels.Heads) {
	const op = "BlockAttentionBackward"
	kernels.CheckBlockAttention(op, o, lse, q, kc, vc, kb, vb, blocks, blockSize, h)
	kernels.Want(op, "do", do, q.Rows, q.Cols)
	kernels.Want(op, "dq", dq, q.Rows, q.Cols)
	kernels.Want(op, "dkc", dkc, kc.Rows, kc.Cols)
	kernels.Want(op, "dvc", dvc, vc.Rows, vc.Cols)
	kernels.Want(op, "dkb", dkb, kb.Rows, kb.Cols)
	kernels.Want(op, "dvb", dvb, vb.Rows, vb.Cols)
	d.Zero(dkc)
	d.Zero(dvc)

	tasks := blockTasks(blocks, blockSize, h, gradParts)
	parts := 1
	for _, t := range tasks {
		parts = max(parts, t.part+1)
	}
	// Part 0 goes straight to dkc and dvc, the others to memory of their own.
	n := dkc.Len()
	sums := d.partial(2 * (parts - 1) * n)
	partOf := func(whole kernels.Tensor, part, which int) kernels.Tensor {
		if part == 0 {
			return whole
		}
		at := (2*(part-1) + which) * n
		return kernels.Host(whole.Rows, whole.Cols, sums[at:at+n])
	}
	d.team.Run(len(tasks), func(i int) {
		s := d.borrow()
		defer d.work.Put(s)
		task := tasks[i]
		g := blockGrads{dq, partOf(dkc, task.part, 0), partOf(dvc, task.part, 1), dkb, dvb, do, o, lse, q, kc, vc, kb, vb}
		heads := newGroup(h, task.kv)
		task.tiles(blockSize, h, func(first, last int) {
			t := newBlockTile(s, heads, blocks, first, last, blockSize)
			t.score(d.path, q, kc, kb)
			t.mask(blocks)
			t.backward(d.path, s, g)
		})
	})
	for part := 1; part < parts; part++ {
		d.Add(dkc, partOf(dkc, part, 0))
		d.Add(dvc, partOf(dvc, part, 1))
	}
}

// backward turns the tile's scores into gradients and adds those of the context.
func (t *blockTile) backward(path *gemm.Path, s *scratch, g blockGrads) {
	n := t.scores.rows * t.Dim
	do, o, dq := grow(&s.do, n), grow(&s.o, n), grow(&s.dq, n)
	t.gather(do, g.do, t.first*t.size, t.last*t.size, 1)
	t.gather(o, g.o, t.first*t.size, t.last*t.size, 1)
	ds := t.scores
	ds.data = grow(&s.ds, len(t.scores.data))
	t.times(path, ds, do, g.vc, g.vb)
	for i := range t.scores.rows {
		p, x := t.scores.row(i), ds.row(i)
		vec.ExpSum(p, g.lse.F32[t.lseAt(i)])
		delta := vec.Dot(do[i*t.Dim:(i+1)*t.Dim], o[i*t.Dim:(i+1)*t.Dim])
		vec.ScaledDifference(x[:t.size], p[:t.size], delta)
		vec.ScaledDifference(x[t.front:t.front+t.hi-t.lo], p[t.front:], delta)
	}

	t.sum(path, dq, ds, g.kc, g.kb)
	t.scatter(g.dq, dq, t.first*t.size, t.last*t.size, t.Scale)
	path.Mul(nil, t.keys(g.dkc, t.lo, t.hi), t.context(ds), t.all(t.q), true, false, 1)
	path.Mul(nil, t.keys(g.dvc, t.lo, t.hi), t.context(t.scores), t.all(do), true, false, 1)
	for n := t.first; n < t.last; n++ {
		path.Mul(nil, t.keys(g.dkb, n*t.size, (n+1)*t.size), t.own(ds, n), t.block(t.q, n), true, false, 0)
		path.Mul(nil, t.keys(g.dvb, n*t.size, (n+1)*t.size), t.own(t.scores, n), t.block(do, n), true, false, 0)
	}
}
