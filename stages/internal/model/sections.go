package model

import (
	"strings"

	"penstock/kernels"
	"penstock/schema/hf"
)

// Sections divides the Flat of a set of the drafter's shapes in the order in which a step completes its gradient: the last
// layer with the final norm, each layer before it, and what leads into the first.
func (d *Drafter) Sections(p *Params) []kernels.Tensor {
	column, end := p.Flat.Reshape(p.Flat.Len(), 1), p.Flat.Len()
	var sections []kernels.Tensor
	cut := func(at int) {
		sections = append(sections, column.RowRange(at, end).Reshape(1, end-at))
		end = at
	}
	for i := len(d.layers) - 1; i >= 0; i-- {
		cut(p.offset(hf.LayerName(i, "")))
	}
	cut(0)
	return sections
}

// offset is the element of Flat at which the first tensor begins whose name has a prefix.
func (p *Params) offset(prefix string) int {
	at := 0
	for _, s := range p.shapes {
		if strings.HasPrefix(s.Name, prefix) {
			break
		}
		at += room(s)
	}
	return at
}
