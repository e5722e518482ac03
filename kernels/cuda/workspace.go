package cuda

import base "penstock/kernels"

// The logits that stand at one time: so many rows, and fewer where the vocabulary is large. The products of this many rows
// are as fast as larger ones.
const (
	logitRows     = 2048
	logitElements = 1 << 29
)

func chunkRows(rows, vocab int) int { return min(rows, logitRows, max(1, logitElements/max(1, vocab))) }

// statBytes is what the backward pass of block attention keeps: two float32 a (slot, query head), and each slot's range.
func statBytes(slots, heads int) int64 { return 8 * int64(slots) * int64(heads+1) }

// Workspace is the device memory, in bytes, that the ops of a training step take beside tensors: for so many slots with query
// heads, of which some are projected on a vocabulary, in a half type. What a sum over rows takes is small and left out.
func Workspace(half base.Type, slots, heads, trained, vocab int) int64 {
	logits := int64(chunkRows(trained, vocab)) * int64(vocab)
	return logits*int64(base.Float32.Bytes()+half.Bytes()) + statBytes(slots, heads)
}

// productSpace is what matrix products take beside their operands, in bytes, from the first of them on: what NVIDIA recommends
// for a GPU of that major compute capability.
func productSpace(major int) int64 {
	if major >= 9 {
		return 32 << 20
	}
	return 4 << 20
}
