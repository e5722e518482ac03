package model

import (
	"penstock/kernels"
	"penstock/schema/hf"
)

// layerBackward takes dx, the gradient of the layer's output, to that of its input in place, adds the weights' gradients to
// g, and adds the context's gradient to dc [S, H].
func (d *Drafter) layerBackward(l, g layer, a blockActs, c contextActs, b block, window int, dx, dc kernels.Tensor) {
	mark := d.arena.Mark()
	d.feedForwardBackward(l, g, a, dx)
	d.arena.Release(mark)
	d.attentionBackward(l, g, a, c, b, window, dx, dc)
	d.arena.Release(mark)
}

func (d *Drafter) feedForwardBackward(l, g layer, a blockActs, dx kernels.Tensor) {
	n, i := a.gate.Rows, a.gate.Cols
	act, dact := d.activated(a), d.arena.Half(n, i)
	d.dev.Gemm(dact, dx, l.down, false, false, 0)
	d.weightGrad(g.down, dx, act)
	dgate, dup := act, d.arena.Half(n, i)
	d.dev.SwiGLUBackward(dgate, dup, dact, a.gate, a.up)
	dy := d.arena.Half(n, d.geo.HiddenSize)
	d.linearBackward(dy, g.gate, kernels.Tensor{}, dgate, l.gate, a.y, 0)
	d.linearBackward(dy, g.up, kernels.Tensor{}, dup, l.up, a.y, 1)
	d.dev.RMSNormBackward(dx, g.postNorm, dy, a.mid, l.postNorm, a.yRstd, true)
}

func (d *Drafter) attentionBackward(l, g layer, a blockActs, c contextActs, b block, window int, dx, dc kernels.Tensor) {
	geo, n, s := d.geo, a.x.Rows, c.c.Rows
	do, dq := d.arena.Half(n, geo.QSize()), d.arena.Half(n, geo.QSize())
	dk, dv := d.arena.Half(n, geo.KVSize()), d.arena.Half(n, geo.KVSize())
	dkc, dvc := d.arena.Half(s, geo.KVSize()), d.arena.Half(s, geo.KVSize())
	d.linearBackward(do, g.o, g.oBias, dx, l.o, a.o, 0)
	d.dev.BlockAttentionBackward(dq, dkc, dvc, dk, dv, do, a.o, a.lse, a.q, a.ctx.k, a.ctx.v, a.k, a.v, b.blocks, b.size, d.heads(window))

	dqRaw, dkRaw, dkcRaw := do, d.arena.Half(n, geo.KVSize()), d.arena.Half(s, geo.KVSize())
	d.dev.HeadNormRopeBackward(dqRaw, g.qNorm, dq, a.qRaw, l.qNorm, a.qRstd, geo.Heads, b.pos, d.rope)
	d.dev.HeadNormRopeBackward(dkRaw, g.kNorm, dk, a.kRaw, l.kNorm, a.kRstd, geo.KVHeads, b.pos, d.rope)
	d.dev.HeadNormRopeBackward(dkcRaw, g.kNorm, dkc, a.ctx.raw, l.kNorm, a.ctx.rstd, geo.KVHeads, c.pos, d.rope)

	d.linearBackward(dc, g.k, g.kBias, dkcRaw, l.k, c.c, 1)
	d.linearBackward(dc, g.v, g.vBias, dvc, l.v, c.c, 1)
	du := d.arena.Half(n, geo.HiddenSize)
	d.linearBackward(du, g.q, g.qBias, dqRaw, l.q, a.u, 0)
	d.linearBackward(du, g.k, g.kBias, dkRaw, l.k, a.u, 1)
	d.linearBackward(du, g.v, g.vBias, dv, l.v, a.u, 1)
	d.dev.RMSNormBackward(dx, g.inputNorm, du, a.x, l.inputNorm, a.uRstd, true)
}

// contextBackward takes dc, the gradient of c = hidden_norm(fc(hidden)), to the two weights. The captures get none.
func (d *Drafter) contextBackward(grads *Params, c contextActs, dc kernels.Tensor) {
	dfc := d.arena.Half(dc.Rows, dc.Cols)
	d.dev.RMSNormBackward(dfc, grads.Tensor(hf.HiddenNorm), dc, c.fc, d.Weights.Tensor(hf.HiddenNorm), c.rstd, false)
	d.weightGrad(grads.Tensor(hf.FC), dfc, c.hidden)
}

// linearBackward: of y = x·wᵀ + bias, dx = dy·w + beta·dx, dw += dyᵀ·x, dbias += Σ_t dy_t.
func (d *Drafter) linearBackward(dx, dw, dbias, dy, w, x kernels.Tensor, beta float32) {
	d.dev.Gemm(dx, dy, w, false, false, beta)
	d.weightGrad(dw, dy, x)
	if !dbias.IsNil() {
		d.dev.Gemm(dbias, d.ones(dy.Rows), dy, false, false, 1)
	}
}

// weightGrad: dw += dyᵀ·x.
func (d *Drafter) weightGrad(dw, dy, x kernels.Tensor) { d.dev.Gemm(dw, dy, x, true, false, 1) }

// ones is a row of n ones: its product with a matrix sums the matrix's rows.
func (d *Drafter) ones(n int) kernels.Tensor {
	one := make([]float32, n)
	for i := range one {
		one[i] = 1
	}
	t := d.arena.Half(1, n)
	d.dev.Upload(t, one)
	return t
}
