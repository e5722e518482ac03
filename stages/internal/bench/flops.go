package bench

import "penstock/stages/internal/geometry"

// Operations are counted as needed: two for each multiplication and addition of a matrix product, attention over the
// keys that a query sees, nothing for norms and activations.

// targetFlops counts the forward of documents through the target's first n layers.
func targetFlops(m geometry.Model, n int, offsets []int32) float64 {
	g := m.Target
	h, q, kv, inter := float64(g.HiddenSize), float64(g.QSize()), float64(g.KVSize()), float64(g.IntermediateSize)
	perToken := 2 * (2*h*q + 2*h*kv + 3*h*inter)
	var flops float64
	for i := range len(offsets) - 1 {
		s := float64(offsets[i+1] - offsets[i])
		flops += s*perToken + 4*q*s*(s+1)/2
	}
	return flops * float64(n)
}

// draftFlops counts forward and backward of the drafter on a batch of which slots reach the vocabulary. What is frozen or
// is an input gets no gradient: captures, embedding and head.
func draftFlops(m geometry.Model, b batch, slots int) float64 {
	g := m.Drafter()
	h, q, kv, inter := float64(g.HiddenSize), float64(g.QSize()), float64(g.KVSize()), float64(g.IntermediateSize)
	context, blocks, size := float64(len(b.ids)), float64(len(b.anchors)), float64(g.BlockSize)
	rows := blocks * size

	var seen float64 // keys that a block's query sees, summed over blocks
	d := 0
	for _, a := range b.anchors {
		for a >= b.offsets[d+1] {
			d++
		}
		seen += float64(a-b.offsets[d]) + size
	}
	fc := 2 * 2 * context * float64(len(g.Taps)*g.TargetHiddenSize) * h // forward, weight
	layer := 3 * (2*context*h*2*kv + 2*rows*(2*h*q+2*h*kv+3*h*inter) + 4*q*size*seen)
	head := 2 * 2 * float64(slots) * float64(g.VocabSize) * h // forward, input
	return fc + float64(g.Layers)*layer + head
}
