package kernelstest

import (
	"fmt"
	"slices"

	"penstock/kernels"
)

// heads are ungrouped, grouped and windowed geometries.
var heads = []kernels.Heads{
	{Q: 1, KV: 1, Dim: 8, Scale: 0.35},
	{Q: 2, KV: 1, Dim: 64, Scale: 0.125},
	{Q: 6, KV: 2, Dim: 16, Scale: 0.25},
	{Q: 4, KV: 4, Dim: 32, Scale: 0.2, Window: 5},
	{Q: 4, KV: 2, Dim: 128, Scale: 0.09, Window: 1},
	{Q: 2, KV: 1, Dim: 32, Scale: 0.2, Window: 40},
	{Q: 3, KV: 3, Dim: 64, Scale: 0.125, Window: 33},
	{Q: 8, KV: 1, Dim: 64, Scale: 0.125},
	{Q: 4, KV: 1, Dim: 128, Scale: 0.09},
	{Q: 3, KV: 1, Dim: 128, Scale: 0.09, Window: 70},
}

// segments are packed documents, documents behind a cache, and one of a single token.
var segments = [][]kernels.Segment{
	{{Q0: 0, Q1: 0, K0: 0, K1: 0}},
	{{Q0: 0, Q1: 1, K0: 0, K1: 1}},
	{{Q0: 0, Q1: 37, K0: 0, K1: 37}, {Q0: 37, Q1: 38, K0: 37, K1: 38}, {Q0: 38, Q1: 120, K0: 38, K1: 120}},
	{{Q0: 0, Q1: 8, K0: 0, K1: 70}, {Q0: 8, Q1: 9, K0: 70, K1: 171}},
	{{Q0: 0, Q1: 129, K0: 0, K1: 129}, {Q0: 129, Q1: 139, K0: 129, K1: 400}, {Q0: 139, Q1: 203, K0: 400, K1: 464}},
}

// blockSets are sorted blocks over several documents, with empty contexts and equal anchors among them.
var blockSets = []struct {
	context int
	size    int
	blocks  []kernels.Block
}{
	{0, 4, nil},
	{9, 4, nil},
	{1, 1, []kernels.Block{{Start: 0, Anchor: 0}}},
	{40, 7, []kernels.Block{{Start: 0, Anchor: 0}, {Start: 0, Anchor: 1}, {Start: 0, Anchor: 20}, {Start: 20, Anchor: 20}, {Start: 20, Anchor: 39}}},
	{150, 16, []kernels.Block{{Start: 0, Anchor: 3}, {Start: 10, Anchor: 60}, {Start: 10, Anchor: 64}, {Start: 100, Anchor: 130}, {Start: 100, Anchor: 150}}},
	{410, 10, slices.Concat(dense(0, 60, 66), dense(90, 90, 92), dense(90, 404, 411))},
	{300, 8, dense(0, 286, 300)},
}

// dense is a block of one document at every anchor in [from, to).
func dense(start, from, to int32) (blocks []kernels.Block) {
	for a := from; a < to; a++ {
		blocks = append(blocks, kernels.Block{Start: start, Anchor: a})
	}
	return blocks
}

func attentionCases() []Case {
	var all []Case
	for _, h := range heads {
		for i, segs := range segments {
			all = append(all, Case{"CausalAttention", fmt.Sprintf("%+v segments %d", h, i), func(c *Call, d kernels.Device) {
				last := segs[len(segs)-1]
				q, k := int(last.Q1), int(last.K1)
				d.CausalAttention(c.Out("o", q, h.Q*h.Dim), c.In(q, h.Q*h.Dim), c.In(k, h.KV*h.Dim), c.In(k, h.KV*h.Dim), segs, h)
			}})
		}
		for _, b := range blockSets {
			shape := fmt.Sprintf("%+v context %d, %d blocks of %d", h, b.context, len(b.blocks), b.size)
			all = append(all,
				Case{"BlockAttention", shape, func(c *Call, d kernels.Device) {
					newBlockCall(c, b.context, len(b.blocks)*b.size, h).forward(c, d, b.blocks, b.size)
				}},
				Case{"BlockAttentionBackward", shape, func(c *Call, d kernels.Device) {
					newBlockCall(c, b.context, len(b.blocks)*b.size, h).backward(c, d, b.blocks, b.size)
				}})
		}
	}
	return all
}

type blockCall struct {
	h                 kernels.Heads
	q, kc, vc, kb, vb kernels.Tensor
}

func newBlockCall(c *Call, context, n int, h kernels.Heads) blockCall {
	kv := h.KV * h.Dim
	return blockCall{h, c.In(n, h.Q*h.Dim), c.In(context, kv), c.In(context, kv), c.In(n, kv), c.In(n, kv)}
}

func (b blockCall) forward(c *Call, d kernels.Device, blocks []kernels.Block, size int) {
	d.BlockAttention(c.Out("o", b.q.Rows, b.q.Cols), c.Out32("lse", b.q.Rows, b.h.Q), b.q, b.kc, b.vc, b.kb, b.vb, blocks, size, b.h)
}

// backward feeds the device its own forward result, as a training step does.
func (b blockCall) backward(c *Call, d kernels.Device, blocks []kernels.Block, size int) {
	o, lse := d.AllocHalf(b.q.Rows, b.q.Cols), d.Alloc(b.q.Rows, b.h.Q)
	d.BlockAttention(o, lse, b.q, b.kc, b.vc, b.kb, b.vb, blocks, size, b.h)
	out := func(name string, of kernels.Tensor) kernels.Tensor { return c.Out(name, of.Rows, of.Cols) }
	d.BlockAttentionBackward(out("dq", b.q), out("dkc", b.kc), out("dvc", b.vc), out("dkb", b.kb), out("dvb", b.vb),
		c.In(b.q.Rows, b.q.Cols), o, lse, b.q, b.kc, b.vc, b.kb, b.vb, blocks, size, b.h)
}
