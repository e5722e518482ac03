package model

import (
	"fmt"
	"slices"

	"penstock/kernels"
)

// Session is one sequence decoded by a target, whose keys and values stay on the device.
type Session struct {
	m     *Target
	taps  []int
	layer []cache // whole rows [capacity, KV·Dim]
	taken kernels.Tensor
	n     int
}

// NewSession returns an empty session for up to capacity tokens that captures taps. The target must be whole.
func (m *Target) NewSession(capacity int, taps []int) (*Session, error) {
	if len(m.layers) < m.geo.Layers {
		return nil, fmt.Errorf("decode: only %d of the target's %d layers are loaded", len(m.layers), m.geo.Layers)
	}
	if len(taps) > 0 {
		if err := m.checkTaps(taps); err != nil {
			return nil, err
		}
	}
	s := &Session{m: m, taps: taps, taken: m.dev.AllocHalf(capacity, len(taps)*m.geo.HiddenSize)}
	for range m.layers {
		s.layer = append(s.layer, cache{k: m.dev.AllocHalf(capacity, m.geo.KVSize()), v: m.dev.AllocHalf(capacity, m.geo.KVSize())})
	}
	return s, nil
}

// Free gives the memory back. The session is used no more.
func (s *Session) Free() {
	for _, l := range s.layer {
		s.m.dev.Free(l.k)
		s.m.dev.Free(l.v)
	}
	s.m.dev.Free(s.taken)
}

// Len returns the number of tokens in the cache.
func (s *Session) Len() int { return s.n }

// Capacity returns the number of tokens that fit.
func (s *Session) Capacity() int { return s.layer[0].k.Rows }

// Append runs ids after what is cached. It returns, for each new token, the final norm's output [n, H], whose product with
// the head is the logits, and the captures [n, K·H]. hidden is valid until the target's next call, taken until the rows
// are truncated and written again.
func (s *Session) Append(ids []int32) (hidden, taken kernels.Tensor, err error) {
	m, lo, hi := s.m, s.n, s.n+len(ids)
	if hi > s.Capacity() {
		return hidden, taken, fmt.Errorf("decode: %d tokens after %d do not fit a cache of %d", len(ids), lo, s.Capacity())
	}
	if len(ids) == 0 {
		return hidden, taken, fmt.Errorf("decode: nothing to append")
	}
	if err := m.checkIDs(ids); err != nil {
		return hidden, taken, err
	}
	m.arena.Reset()
	pos := make([]int32, len(ids))
	for i := range pos {
		pos[i] = int32(lo + i)
	}
	p := pass{pos: m.dev.Index(pos), segs: []kernels.Segment{{Q0: 0, Q1: int32(len(ids)), K0: 0, K1: int32(hi)}}}
	x := m.embed(ids)
	taken = s.taken.RowRange(lo, hi)
	for i, l := range m.layers {
		mark := m.arena.Mark()
		c := s.layer[i]
		m.layer(l, x, cache{k: c.k.RowRange(0, hi), v: c.v.RowRange(0, hi), newK: c.k.RowRange(lo, hi), newV: c.v.RowRange(lo, hi)}, p, m.windows[i])
		m.arena.Release(mark)
		if at := slices.Index(s.taps, i); at >= 0 {
			m.dev.CopyCols(taken, at*m.geo.HiddenSize, x)
		}
	}
	s.n = hi
	return m.normed(x, m.norm, kernels.Tensor{}), taken, nil
}

// Truncate forgets all but the first n tokens.
func (s *Session) Truncate(n int) error {
	if n < 0 || n > s.n {
		return fmt.Errorf("decode: truncate a cache of %d tokens to %d", s.n, n)
	}
	s.n = n
	return nil
}
