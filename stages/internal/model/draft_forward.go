package model

import (
	"penstock/kernels"
	"penstock/schema/hf"
)

// contextActs is the captures as the layers see them: c = hidden_norm(fc(hidden)).
type contextActs struct {
	hidden, fc, rstd, c kernels.Tensor
	pos                 kernels.Index
}

// contextKV is a layer's keys and values of the context; raw is before norm and rotation.
type contextKV struct{ raw, rstd, k, v kernels.Tensor }

// blockActs is what one layer's forward leaves for its backward, for the rows of all blocks.
type blockActs struct {
	x, u, uRstd             kernels.Tensor // input of the layer, normed
	qRaw, qRstd, q          kernels.Tensor
	kRaw, kRstd, k, v       kernels.Tensor
	o, lse                  kernels.Tensor
	mid, y, yRstd, gate, up kernels.Tensor // after attention, normed, feed-forward
	ctx                     contextKV
}

func (d *Drafter) newContext(hidden kernels.Tensor, pos kernels.Index) contextActs {
	h := d.geo.HiddenSize
	c := contextActs{hidden: hidden, pos: pos, fc: d.arena.Half(hidden.Rows, h), rstd: d.arena.Get(hidden.Rows, 1)}
	d.linear(c.fc, hidden, d.Weights.Half().Tensor(hf.FC), kernels.Tensor{})
	c.c = d.normed(c.fc, d.Weights.Tensor(hf.HiddenNorm), c.rstd)
	return c
}

// contextKV fills k and v [S, KV·Dim], and raw and rstd unless they are nil.
func (d *Drafter) contextKV(l layer, c contextActs, kv contextKV) {
	raw := kv.raw
	if raw.IsNil() {
		raw = kv.k
	}
	d.linear(raw, c.c, l.k, l.kBias)
	d.linear(kv.v, c.c, l.v, l.vBias)
	d.dev.HeadNormRope(kv.k, raw, l.kNorm, kv.rstd, d.geo.KVHeads, c.pos, d.rope, d.eps())
}

// block is the geometry of all blocks of a call.
type block struct {
	blocks []kernels.Block
	pos    kernels.Index
	size   int
}

// layer runs one layer on x [N·B, H] and returns its output in new memory.
func (d *Drafter) layer(l layer, x kernels.Tensor, ctx contextKV, b block, window int) (kernels.Tensor, blockActs) {
	g, n := d.geo, x.Rows
	a := blockActs{x: x, ctx: ctx,
		uRstd: d.arena.Get(n, 1), yRstd: d.arena.Get(n, 1), mid: d.arena.Half(n, g.HiddenSize),
		qRaw: d.arena.Half(n, g.QSize()), q: d.arena.Half(n, g.QSize()), qRstd: d.arena.Get(n, g.Heads),
		kRaw: d.arena.Half(n, g.KVSize()), k: d.arena.Half(n, g.KVSize()), kRstd: d.arena.Get(n, g.KVHeads),
		v: d.arena.Half(n, g.KVSize()), o: d.arena.Half(n, g.QSize()), lse: d.arena.Get(n, g.Heads),
		gate: d.arena.Half(n, g.IntermediateSize), up: d.arena.Half(n, g.IntermediateSize)}
	a.u = d.normed(x, l.inputNorm, a.uRstd)
	d.linear(a.qRaw, a.u, l.q, l.qBias)
	d.linear(a.kRaw, a.u, l.k, l.kBias)
	d.linear(a.v, a.u, l.v, l.vBias)
	d.dev.HeadNormRope(a.q, a.qRaw, l.qNorm, a.qRstd, g.Heads, b.pos, d.rope, d.eps())
	d.dev.HeadNormRope(a.k, a.kRaw, l.kNorm, a.kRstd, g.KVHeads, b.pos, d.rope, d.eps())
	d.dev.BlockAttention(a.o, a.lse, a.q, ctx.k, ctx.v, a.k, a.v, b.blocks, b.size, d.heads(window))
	d.dev.Copy(a.mid, x)
	d.residual(a.mid, a.o, l.o, l.oBias)

	a.y = d.normed(a.mid, l.postNorm, a.yRstd)
	d.linear(a.gate, a.y, l.gate, kernels.Tensor{})
	d.linear(a.up, a.y, l.up, kernels.Tensor{})
	out := d.arena.Half(n, g.HiddenSize)
	d.dev.Copy(out, a.mid)
	d.residual(out, d.activated(a), l.down, kernels.Tensor{})
	return out, a
}

// activated returns silu(gate)·up; the backward pass computes it again rather than keep it.
func (d *Drafter) activated(a blockActs) kernels.Tensor {
	act := d.arena.Half(a.gate.Rows, a.gate.Cols)
	d.dev.SwiGLU(act, a.gate, a.up)
	return act
}
