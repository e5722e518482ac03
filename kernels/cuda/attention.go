//go:build cuda

package cuda

import (
	"fmt"
	"slices"

	base "penstock/kernels"
)

// tile is how the attention kernels cut their work for heads up to dim: rows of queries and keys at a time, forward and
// backward, and the kernels. src/attention.cuh holds the same numbers.
type tile struct {
	dim                    int
	rows, keys             int // forward
	backRows, backKeys     int
	causal, block, dq, dkv typed
}

var (
	tiles  = []tile{newTile(32, 64, 32, 32), newTile(64, 64, 32, 32), newTile(128, 64, 32, 32), newTile(256, 32, 16, 16)}
	kDelta = registerTyped("block_attention_backward", "block_attention_delta", 0)
)

func newTile(dim, rows, keys, back int) tile {
	t := tile{dim: dim, rows: rows, keys: keys, backRows: back, backKeys: back}
	stride := dim + 4
	forward := 4 * ((rows+2*keys)*stride + rows*(keys+1))
	backward := 4 * (4*back*stride + 2*back*(back+1))
	name := func(s string) string { return fmt.Sprintf("%s_%d", s, dim) }
	t.causal = registerTyped("causal_attention", name("causal_attention"), forward)
	t.block = registerTyped("block_attention", name("block_attention"), forward)
	t.dq = registerTyped("block_attention_backward", name("block_attention_dq"), backward)
	t.dkv = registerTyped("block_attention_backward", name("block_attention_dkv"), backward)
	return t
}

func tileFor(op string, h base.Heads) tile {
	for _, t := range tiles {
		if h.Dim <= t.dim {
			return t
		}
	}
	panic(fmt.Sprintf("cuda: %s: heads of %d, the largest is %d", op, h.Dim, tiles[len(tiles)-1].dim))
}

func cuts(n, size int) int { return (n + size - 1) / size }

// causalPlan is the list of work units of the latest causal attention; all layers of a forward share it.
type causalPlan struct {
	segs  []base.Segment
	group int
	rows  int
	at    address
	units int
}

// forget says that the list is no longer on the device.
func (p *causalPlan) forget() { p.at = 0 }

// unitWords is the size of a unit in src/causal_attention.cu: q0, q1, k0, k1, first.
const unitWords = 5

// plan cuts the segments' queries into units, those with most keys first.
func (d *Device) plan(c *call, segs []base.Segment, group, rows int) (at address, units int) {
	p := &d.causal
	if p.at != 0 && p.group == group && p.rows == rows && slices.Equal(p.segs, segs) {
		return p.at, p.units
	}
	type unit struct {
		base.Segment
		first int32
		keys  int
	}
	var all []unit
	for _, s := range segs {
		n := int(s.Q1-s.Q0) * group
		for first := 0; first < n; first += rows {
			last := min(first+rows, n) - 1
			all = append(all, unit{s, int32(first), int(s.K1-s.K0) - int(s.Q1-s.Q0) + last/group + 1})
		}
	}
	slices.SortStableFunc(all, func(a, b unit) int { return b.keys - a.keys })
	words := make([]int32, 0, unitWords*len(all))
	for _, u := range all {
		words = append(words, u.Q0, u.Q1, u.K0, u.K1, u.first)
	}
	*p = causalPlan{slices.Clone(segs), group, rows, d.put(c, words), len(all)}
	return p.at, p.units
}

// CausalAttention: o = softmax(scale·q·kᵀ)·v within each segment.
func (d *Device) CausalAttention(o, q, k, v base.Tensor, segs []base.Segment, h base.Heads) {
	const op = "CausalAttention"
	base.CheckCausalAttention(o, q, k, v, segs, h)
	c := &call{op, []any{shape(q), shape(k), len(segs), h}}
	of := same(op, o, q, k, v)
	if t := d.tensorTile(of, h); t != nil {
		d.tensorCausal(t, c, o, q, k, v, segs, h)
		return
	}
	t := tileFor(op, h)
	list, units := d.plan(c, segs, h.Q/h.KV, t.rows)
	to, qs, ks, vs := at(op, o), at(op, q), at(op, k), at(op, v)
	d.enqueue(c, func() error {
		return d.launch(t.causal[of], grid{units, h.KV, 4 * t.rows}, to, qs, ks, vs, list,
			int32(h.Q), int32(h.KV), int32(h.Dim), int32(h.Window), h.Scale)
	})
}

// list uploads blocks.
func (d *Device) list(c *call, blocks []base.Block) address {
	words := make([]int32, 0, 2*len(blocks))
	for _, b := range blocks {
		words = append(words, b.Start, b.Anchor)
	}
	return d.put(c, words)
}

// BlockAttention: o = softmax(scale·q·[kc, kb]ᵀ)·[vc, vb] over what the slot sees, lse its log Σ exp.
func (d *Device) BlockAttention(o, lse, q, kc, vc, kb, vb base.Tensor, blocks []base.Block, blockSize int, h base.Heads) {
	const op = "BlockAttention"
	base.CheckBlockAttention(op, o, lse, q, kc, vc, kb, vb, blocks, blockSize, h)
	c := &call{op, []any{shape(q), shape(kc), len(blocks), h}}
	of := same(op, o, q, kc, vc, kb, vb)
	wide(op, lse)
	if t := d.tensorTile(of, h); t != nil {
		d.tensorBlock(t, c, o, lse, q, kc, vc, kb, vb, blocks, blockSize, h)
		return
	}
	t := tileFor(op, h)
	list, n := d.list(c, blocks), cuts(blockSize*h.Q/h.KV, t.rows)
	to, sums, qs, kcs, vcs, kbs, vbs := at(op, o), at(op, lse), at(op, q), at(op, kc), at(op, vc), at(op, kb), at(op, vb)
	d.enqueue(c, func() error {
		return d.launch(t.block[of], grid{len(blocks) * n, h.KV, 4 * t.rows}, to, sums, qs, kcs, vcs, kbs, vbs, list,
			int32(blockSize), int32(n), int32(h.Q), int32(h.KV), int32(h.Dim), int32(h.Window), h.Scale)
	})
}

// BlockAttentionBackward sets dq, dkb, dvb, dkc and dvc.
func (d *Device) BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb base.Tensor, blocks []base.Block, blockSize int, h base.Heads) {
	const op = "BlockAttentionBackward"
	base.CheckBlockAttention(op, o, lse, q, kc, vc, kb, vb, blocks, blockSize, h)
	base.Want(op, "do", do, q.Rows, q.Cols)
	base.Want(op, "dq", dq, q.Rows, q.Cols)
	base.Want(op, "dkc", dkc, kc.Rows, kc.Cols)
	base.Want(op, "dvc", dvc, kc.Rows, kc.Cols)
	base.Want(op, "dkb", dkb, kb.Rows, kb.Cols)
	base.Want(op, "dvb", dvb, kb.Rows, kb.Cols)
	c := &call{op, []any{shape(q), shape(kc), len(blocks), h}}
	of := same(op, dq, dkc, dvc, dkb, dvb, do, o, q, kc, vc, kb, vb)
	wide(op, lse)
	if t := d.tensorTile(of, h); t != nil {
		d.tensorBlockBackward(t, c, dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb, blocks, blockSize, h)
		return
	}
	t := tileFor(op, h)
	list := d.list(c, blocks)
	gq, gkc, gvc, gkb, gvb := at(op, dq), at(op, dkc), at(op, dvc), at(op, dkb), at(op, dvb)
	g, out, sums, qs, kcs, vcs, kbs, vbs := at(op, do), at(op, o), at(op, lse), at(op, q), at(op, kc), at(op, vc), at(op, kb), at(op, vb)
	heads := []any{int32(h.Q), int32(h.KV), int32(h.Dim), int32(h.Window), h.Scale}
	d.enqueue(c, func() error {
		rows := q.Rows * h.Q
		delta, err := d.scratch(deltas, bytesOf(rows))
		if err != nil {
			return err
		}
		if err := d.launch(kDelta[of], grid{cuts(32*rows, blockThreads), 1, blockThreads}, delta, g, out, int64(rows), int32(h.Dim)); err != nil {
			return err
		}
		n := cuts(blockSize*h.Q/h.KV, t.backRows)
		err = d.launch(t.dq[of], grid{len(blocks) * n, h.KV, 4 * t.backRows},
			append([]any{gq, g, sums, delta, qs, kcs, vcs, kbs, vbs, list, int32(blockSize), int32(n)}, heads...)...)
		if err != nil {
			return err
		}
		context, slots := cuts(kc.Rows, t.backKeys), cuts(blockSize, t.backKeys)
		return d.launch(t.dkv[of], grid{context + len(blocks)*slots, h.KV, 4 * t.backRows},
			append([]any{gkc, gvc, gkb, gvb, g, sums, delta, qs, kcs, vcs, kbs, vbs, list, int32(len(blocks)), int32(kc.Rows),
				int32(context), int32(blockSize), int32(slots)}, heads...)...)
	})
}
