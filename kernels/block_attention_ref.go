package kernels

import (
	"fmt"
	"math"
)

// CheckBlockAttention panics unless q, o are [N·B, Q·Dim], kc, vc [S, KV·Dim], kb, vb [N·B, KV·Dim], lse [N·B, Q],
// and every block's context lies within the S rows.
func CheckBlockAttention(op string, o, lse, q, kc, vc, kb, vb Tensor, blocks []Block, blockSize int, h Heads) {
	checkHeads(op, h)
	n := len(blocks) * blockSize
	Want(op, "q", q, n, h.Q*h.Dim)
	Want(op, "o", o, n, h.Q*h.Dim)
	Want(op, "lse", lse, n, h.Q)
	Want(op, "kc", kc, kc.Rows, h.KV*h.Dim)
	Want(op, "vc", vc, kc.Rows, h.KV*h.Dim)
	Want(op, "kb", kb, n, h.KV*h.Dim)
	Want(op, "vb", vb, n, h.KV*h.Dim)
	for i, b := range blocks {
		if b.Start < 0 || b.Anchor < b.Start || int(b.Anchor) > kc.Rows || i > 0 && b.Anchor < blocks[i-1].Anchor {
			panic(fmt.Sprintf("kernels: %s: block %d %+v over %d context rows (sorted by anchor?)", op, i, b, kc.Rows))
		}
	}
}

// Sees returns the context rows [lo, Anchor) that slot s sees and the number of its block's slots that it sees.
func (b Block) Sees(s, blockSize int, h Heads) (lo, slots int) {
	if h.Window > 0 {
		return min(max(int(b.Start), int(b.Anchor)+s-(h.Window-1)), int(b.Anchor)), s + 1
	}
	return int(b.Start), blockSize
}

// BlockAttention: o = softmax(scale·q·[kc, kb]ᵀ)·[vc, vb] over what the slot sees, lse its log Σ exp.
func (*Ref) BlockAttention(o, lse, q, kc, vc, kb, vb Tensor, blocks []Block, blockSize int, h Heads) {
	CheckBlockAttention("BlockAttention", o, lse, q, kc, vc, kb, vb, blocks, blockSize, h)
	var at attention
	for n, b := range blocks {
		for s := range blockSize {
			i, first := n*blockSize+s, n*blockSize
			lo, slots := b.Sees(s, blockSize, h)
			for head := range h.Q {
				at.reset(part(q, i, head, h), h)
				at.keys(kc, lo, int(b.Anchor), head)
				at.keys(kb, first, first+slots, head)
				lse.F32[i*h.Q+head] = float32(at.softmax())
				at.write(part(o, i, head, h), head, span{vc, lo, int(b.Anchor)}, span{vb, first, first + slots})
			}
		}
	}
}

// BlockAttentionBackward: with p = exp(score - lse) and δ = do·o, dv_j = Σ p_j·do, ds_j = p_j·(do·v_j - δ)·scale,
// dq = Σ ds_j·k_j, dk_j = Σ ds_j·q. All outputs are set, not added to.
func (r *Ref) BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb Tensor, blocks []Block, blockSize int, h Heads) {
	const op = "BlockAttentionBackward"
	CheckBlockAttention(op, o, lse, q, kc, vc, kb, vb, blocks, blockSize, h)
	Want(op, "do", do, q.Rows, q.Cols)
	for _, g := range []struct {
		name  string
		d, of Tensor
	}{{"dq", dq, q}, {"dkc", dkc, kc}, {"dvc", dvc, vc}, {"dkb", dkb, kb}, {"dvb", dvb, vb}} {
		Want(op, g.name, g.d, g.of.Rows, g.of.Cols)
		r.Zero(g.d)
	}
	for n, b := range blocks {
		for s := range blockSize {
			i, first := n*blockSize+s, n*blockSize
			lo, slots := b.Sees(s, blockSize, h)
			for head := range h.Q {
				g := blockGrad{h: h, head: head, q: part(q, i, head, h), do: part(do, i, head, h), lse: float64(lse.F32[i*h.Q+head])}
				g.delta = dot(g.do, part(o, i, head, h))
				g.add(part(dq, i, head, h), dkc, dvc, kc, vc, lo, int(b.Anchor))
				g.add(part(dq, i, head, h), dkb, dvb, kb, vb, first, first+slots)
			}
		}
	}
}

// blockGrad is the backward pass of one query of one head.
type blockGrad struct {
	h          Heads
	head       int
	q, do      []float32
	lse, delta float64
}

// add adds what keys and values [lo, hi) contribute to dq and what they receive.
func (g *blockGrad) add(dq []float32, dk, dv, k, v Tensor, lo, hi int) {
	group := g.head / (g.h.Q / g.h.KV)
	for j := lo; j < hi; j++ {
		kj, vj := part(k, j, group, g.h), part(v, j, group, g.h)
		dkj, dvj := part(dk, j, group, g.h), part(dv, j, group, g.h)
		p := math.Exp(dot(g.q, kj)*float64(g.h.Scale) - g.lse)
		ds := float32(p * (dot(g.do, vj) - g.delta) * float64(g.h.Scale))
		for d := range kj {
			dq[d] += ds * kj[d]
			dkj[d] += ds * g.q[d]
			dvj[d] += float32(p) * g.do[d]
		}
	}
}
