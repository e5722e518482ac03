package model

import (
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
)

// DraftSession proposes blocks for one sequence. Each layer's keys and values of the committed context stay on the device;
// a block's own are never kept.
type DraftSession struct {
	d     *Drafter
	layer []contextKV // k and v [capacity, KV·Dim]
	n     int
}

// NewSession returns an empty session for up to capacity tokens.
func (d *Drafter) NewSession(capacity int) *DraftSession {
	s := &DraftSession{d: d}
	for range d.layers {
		s.layer = append(s.layer, contextKV{k: d.dev.AllocHalf(capacity, d.geo.KVSize()), v: d.dev.AllocHalf(capacity, d.geo.KVSize())})
	}
	return s
}

// Free gives the memory back. The session is used no more.
func (s *DraftSession) Free() {
	for _, l := range s.layer {
		s.d.dev.Free(l.k)
		s.d.dev.Free(l.v)
	}
}

// Len returns the number of committed tokens.
func (s *DraftSession) Len() int { return s.n }

// Reset forgets every committed token.
func (s *DraftSession) Reset() { s.n = 0 }

// Extend commits the captures [n, K·H] of the next n tokens.
func (s *DraftSession) Extend(hidden kernels.Tensor) error {
	d, lo, hi := s.d, s.n, s.n+hidden.Rows
	if hi > s.layer[0].k.Rows {
		return fmt.Errorf("draft: %d tokens after %d do not fit a cache of %d", hidden.Rows, lo, s.layer[0].k.Rows)
	}
	if want := len(d.Config.Taps) * d.Config.TargetHiddenSize; hidden.Cols != want {
		return fmt.Errorf("draft: captures have %d columns, want %d", hidden.Cols, want)
	}
	d.arena.Reset()
	pos := make([]int32, hidden.Rows)
	for i := range pos {
		pos[i] = int32(lo + i)
	}
	c := d.newContext(hidden, d.dev.Index(pos))
	for i, l := range d.layers {
		d.contextKV(l, c, contextKV{k: s.layer[i].k.RowRange(lo, hi), v: s.layer[i].v.RowRange(lo, hi)})
	}
	s.n = hi
	return nil
}

// Propose returns the B-1 tokens that the drafter expects after id, the token that follows the committed ones.
func (s *DraftSession) Propose(id int32) ([]int32, error) {
	d, size := s.d, s.d.Config.BlockSize
	if err := checkIDs([]int32{id}, d.Config.VocabSize); err != nil {
		return nil, fmt.Errorf("draft: %w", err)
	}
	d.arena.Reset()
	pos := make([]int32, size)
	for i := range pos {
		pos[i] = int32(s.n + i)
	}
	b := block{blocks: []kernels.Block{{Start: 0, Anchor: int32(s.n)}}, pos: d.dev.Index(pos), size: size}
	x := d.arena.Half(size, d.geo.HiddenSize)
	d.dev.Gather(x, d.Embedding, d.dev.Index(d.blockIDs([]int32{id})))
	for i, l := range d.layers {
		kv := s.layer[i]
		x, _ = d.layer(l, x, contextKV{k: kv.k.RowRange(0, s.n), v: kv.v.RowRange(0, s.n)}, b, d.Config.LayerWindow(i))
	}
	y := d.normed(x.RowRange(1, size), d.Weights.Tensor(hf.FinalNorm), kernels.Tensor{})
	ids := d.dev.Argmax(y, d.Head)
	return ids, d.dev.Sync()
}
