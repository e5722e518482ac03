package cpu

import (
	"penstock/kernels"
	"penstock/kernels/gemm"
	"penstock/kernels/internal/vec"
)

// causalTile is queries [q0, q1) of a segment for one key head; they see keys among [lo, hi).
type causalTile struct {
	seg            kernels.Segment
	kv             int
	q0, q1, lo, hi int
}

// CausalAttention: o = softmax(scale·q·kᵀ)·v within each segment, a tile of queries and the heads of a group at a time.
func (d *Device) CausalAttention(o, q, k, v kernels.Tensor, segs []kernels.Segment, h kernels.Heads) {
	kernels.CheckCausalAttention(o, q, k, v, segs, h)
	tiles := causalTiles(segs, h)
	d.team.Run(len(tiles), func(i int) { d.causalTile(tiles[i], o, q, k, v, h) })
}

// causalTiles cuts the segments up.
func causalTiles(segs []kernels.Segment, h kernels.Heads) []causalTile {
	var tiles []causalTile
	step := newGroup(h, 0).queries()
	for _, s := range segs {
		for q0 := int(s.Q0); q0 < int(s.Q1); q0 += step {
			t := causalTile{seg: s, q0: q0, q1: min(q0+step, int(s.Q1))}
			t.lo, _ = t.sees(t.q0, h.Window)
			_, t.hi = t.sees(t.q1-1, h.Window)
			for t.kv = range h.KV {
				tiles = append(tiles, t)
			}
		}
	}
	return tiles
}

// sees returns the keys [lo, hi) of query i.
func (t causalTile) sees(i, window int) (lo, hi int) {
	lo, hi = int(t.seg.K0), int(t.seg.K1)-(int(t.seg.Q1)-i)+1
	if window > 0 {
		lo = max(lo, hi-window)
	}
	return lo, hi
}

func (d *Device) causalTile(t causalTile, o, q, k, v kernels.Tensor, h kernels.Heads) {
	s := d.borrow()
	defer d.work.Put(s)
	g := newGroup(h, t.kv)
	rows, width := (t.q1-t.q0)*g.share, t.hi-t.lo
	p := scores{rows: rows, stride: pad(width)}
	p.data = grow(&s.p, rows*p.stride)
	qs, os, sums := grow(&s.q, rows*h.Dim), grow(&s.o, rows*h.Dim), grow(&s.lse, rows)

	g.gather(qs, q, t.q0, t.q1, h.Scale)
	d.path.Mul(nil, p.part(0, rows, 0, width), gemm.Dense(rows, h.Dim, qs), g.keys(k, t.lo, t.hi), false, true, 0)
	for i := range rows {
		lo, hi := t.sees(t.q0+i/g.share, h.Window)
		x := p.row(i)
		seen := mask(x, lo-t.lo, hi-t.lo)
		_, sums[i] = softmax(seen)
		clear(x[len(seen):])
	}
	d.path.Mul(nil, gemm.Dense(rows, h.Dim, os), p.part(0, rows, 0, width), g.keys(v, t.lo, t.hi), false, false, 0)
	for i, sum := range sums {
		x := os[i*h.Dim : (i+1)*h.Dim]
		vec.Scale(x, x, 1/sum)
	}
	g.scatter(o, os, t.q0, t.q1, 1)
}
