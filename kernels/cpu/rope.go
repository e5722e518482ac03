package cpu

import (
	"slices"

	"penstock/kernels"
)

// ropeTable holds the cosines and sines of one rope, dim/2 a position, for positions from 0.
type ropeTable struct {
	rope     kernels.Rope
	cos, sin []float32
}

// rope returns the table for r, grown to hold the positions in pos.
func (d *Device) rope(r kernels.Rope, pos kernels.Index) *ropeTable {
	t := d.ropeOf(r)
	half := len(r.InvFreq)
	need := 0
	for _, p := range pos.Host {
		need = max(need, int(p)+1)
	}
	have := len(t.cos) / max(half, 1)
	if need <= have {
		return t
	}
	need = max(need, 2*have)
	t.cos, t.sin = slices.Grow(t.cos, (need-have)*half), slices.Grow(t.sin, (need-have)*half)
	t.cos, t.sin = t.cos[:need*half], t.sin[:need*half]
	d.rows(need-have, half, func(lo, hi int) {
		for p := have + lo; p < have+hi; p++ {
			cos, sin := t.at(int32(p))
			r.Angles(cos, sin, int32(p))
		}
	})
	return t
}

func (d *Device) ropeOf(r kernels.Rope) *ropeTable {
	for _, t := range d.ropes {
		if t.rope.Factor == r.Factor && slices.Equal(t.rope.InvFreq, r.InvFreq) {
			return t
		}
	}
	r.InvFreq = slices.Clone(r.InvFreq)
	t := &ropeTable{rope: r}
	d.ropes = append(d.ropes, t)
	return t
}

// at returns the cosines and sines of position p.
func (t *ropeTable) at(p int32) (cos, sin []float32) {
	half := len(t.rope.InvFreq)
	lo, hi := int(p)*half, (int(p)+1)*half
	return t.cos[lo:hi:hi], t.sin[lo:hi:hi]
}
