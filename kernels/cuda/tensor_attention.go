//go:build cuda

package cuda

import (
	"fmt"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

// tensorTile is attention over bfloat16 on tensor cores for heads of one size: the kernels of src/*_mma.cu, or those of
// src/*_wgmma.cu, which a GPU may lack. Every 16 bytes of a row of a tensor are aligned, for rows hold whole heads.
type tensorTile struct {
	dim                    int
	warpgroups             bool
	threads                int
	keys                   int // of a tile of the gradients of keys and values
	causal, block, dq, dkv int // kernels
}

// tensorRows is the number of (query, head) rows of a tile of every kernel.
const tensorRows = 128

var (
	tensorTiles = []tensorTile{newWarpgroupTile(64), newWarpgroupTile(128), newWarpTile(64), newWarpTile(128)} // best first
	kStats      = register("block_attention_backward_mma", "block_attention_mma_stats", 0)
)

func newWarpTile(dim int) tensorTile {
	shared := 768*dim + 2080 // the largest of ForwardMMA, QueryGradient and KeyGradient
	return tensorTile{
		dim: dim, threads: 128, keys: 64,
		causal: register("causal_attention_mma", fmt.Sprintf("causal_attention_mma_%d", dim), shared),
		block:  register("block_attention_mma", fmt.Sprintf("block_attention_mma_%d", dim), shared),
		dq:     register("block_attention_backward_mma", fmt.Sprintf("block_attention_mma_dq_%d", dim), shared),
		dkv:    register("block_attention_backward_mma", fmt.Sprintf("block_attention_mma_dkv_%d", dim), shared),
	}
}

func newWarpgroupTile(dim int) tensorTile {
	shared := 1536*dim + 4184 // the largest of ForwardWGMMA, QueryGradientWGMMA and KeyGradientWGMMA
	return tensorTile{
		dim: dim, warpgroups: true, threads: 384, keys: 128,
		causal: registerOptional("causal_attention_wgmma", fmt.Sprintf("causal_attention_wgmma_%d", dim), shared),
		block:  registerOptional("block_attention_wgmma", fmt.Sprintf("block_attention_wgmma_%d", dim), shared),
		dq:     registerOptional("block_attention_backward_wgmma", fmt.Sprintf("block_attention_wgmma_dq_%d", dim), shared),
		dkv:    registerOptional("block_attention_backward_wgmma", fmt.Sprintf("block_attention_wgmma_dkv_%d", dim), shared),
	}
}

// tensorTile returns the kernels for operands of a type, or nil if there are none for it or for such heads.
func (d *Device) tensorTile(of base.Type, h base.Heads) *tensorTile {
	for i, t := range tensorTiles {
		if of == base.BFloat16 && h.Dim == t.dim && d.functions[t.causal] != (cu.Function{}) && !(t.warpgroups && d.warpsOnly) {
			return &tensorTiles[i]
		}
	}
	return nil
}

// forward launches a forward kernel over so many tiles of rows.
func (d *Device) forward(t *tensorTile, kernel, tiles int, h base.Heads, args ...any) error {
	args = append(args, int32(h.Q), int32(h.KV), int32(h.Window), h.Scale)
	items := tiles * h.KV
	if t.warpgroups { // they stay on their multiprocessors and take one item after another
		return d.launch(kernel, grid{min(items, d.multiprocessors), 1, t.threads}, append(args, int32(items))...)
	}
	return d.launch(kernel, grid{items, 1, t.threads}, args...)
}

// tensorCausal is CausalAttention.
func (d *Device) tensorCausal(t *tensorTile, c *call, o, q, k, v base.Tensor, segs []base.Segment, h base.Heads) {
	list, units := d.plan(c, segs, h.Q/h.KV, tensorRows)
	to, qs, ks, vs := at(c.op, o), at(c.op, q), at(c.op, k), at(c.op, v)
	d.enqueue(c, func() error { return d.forward(t, t.causal, units, h, to, qs, ks, vs, list) })
}

// tensorBlock is BlockAttention.
func (d *Device) tensorBlock(t *tensorTile, c *call, o, lse, q, kc, vc, kb, vb base.Tensor, blocks []base.Block, blockSize int, h base.Heads) {
	list := d.list(c, blocks)
	to, sums, qs := at(c.op, o), at(c.op, lse), at(c.op, q)
	kcs, vcs, kbs, vbs := at(c.op, kc), at(c.op, vc), at(c.op, kb), at(c.op, vb)
	d.enqueue(c, func() error {
		return d.forward(t, t.block, cuts(q.Rows*h.Q/h.KV, tensorRows), h, to, sums, qs, kcs, vcs, kbs, vbs, list, int32(q.Rows), int32(blockSize))
	})
}

// tensorBlockBackward is BlockAttentionBackward.
func (d *Device) tensorBlockBackward(t *tensorTile, c *call, dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb base.Tensor, blocks []base.Block, blockSize int, h base.Heads) {
	list := d.list(c, blocks)
	gq, gkc, gvc, gkb, gvb := at(c.op, dq), at(c.op, dkc), at(c.op, dvc), at(c.op, dkb), at(c.op, dvb)
	g, out, sums, qs := at(c.op, do), at(c.op, o), at(c.op, lse), at(c.op, q)
	kcs, vcs, kbs, vbs := at(c.op, kc), at(c.op, vc), at(c.op, kb), at(c.op, vb)
	slots, size, qh, kvh, window := int32(q.Rows), int32(blockSize), int32(h.Q), int32(h.KV), int32(h.Window)
	d.enqueue(c, func() error {
		pairs := q.Rows * h.Q
		stats, err := d.scratch(deltas, statBytes(q.Rows, h.Q)) // two numbers a (slot, head), then the range of each slot
		if err != nil {
			return err
		}
		seen := stats + address(8*pairs)
		if err := d.launch(kStats, grid{cuts(32*pairs, blockThreads), 1, blockThreads}, stats, seen, g, out, sums, list, slots, size, qh, kvh, int32(h.Dim), window); err != nil {
			return err
		}
		err = d.launch(t.dq, grid{cuts(q.Rows*h.Q/h.KV, tensorRows) * h.KV, 1, t.threads},
			gq, g, stats, qs, kcs, vcs, kbs, vbs, list, slots, size, qh, kvh, window, h.Scale)
		if err != nil {
			return err
		}
		context := cuts(kc.Rows, t.keys)
		return d.launch(t.dkv, grid{(context + cuts(q.Rows, t.keys)) * h.KV, 1, t.threads},
			gkc, gvc, gkb, gvb, g, stats, seen, qs, kcs, vcs, kbs, vbs, list, int32(kc.Rows), int32(context), slots, size, qh, kvh, window, h.Scale)
	})
}
