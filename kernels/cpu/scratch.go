package cpu

import "penstock/kernels"

// scratch is the memory of one goroutine's part of an attention or projection op. Buffers keep their largest size.
type scratch struct {
	q, o, do, dq []float32 // [R, dim]
	p, ds        []float32 // [R, keys]
	lse          []float32 // [R]
}

// borrow returns scratch memory; it goes back with d.work.Put.
func (d *Device) borrow() *scratch {
	if s := d.work.Get(); s != nil {
		return s
	}
	return &scratch{}
}

// headColumns is the part of row i of t that belongs to a head.
func headColumns(t kernels.Tensor, i, head, dim int) []float32 {
	at := i*t.Cols + head*dim
	return t.F32[at : at+dim : at+dim]
}
