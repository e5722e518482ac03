package model

import (
	"fmt"
	"slices"

	"penstock/kernels"
	"penstock/schema/hf"
)

// paramAlign is the step, in elements, on which each tensor of a set begins: 256 bytes.
const paramAlign = 64

// sumRow is the number of elements of which a set is a multiple, and the row in which a device sums its bits: one of
// paramAlign would leave most of a GPU's threads without work.
const sumRow = 4096

// Params is an ordered set of named tensors in one allocation: a drafter's weights, their gradients, or a moment.
// Flat is all of it as one row, for what treats every element alike; the gaps between tensors and behind the last stay zero.
type Params struct {
	Flat   kernels.Tensor
	shapes []hf.Shape
	views  []kernels.Tensor
	dev    kernels.Device
	half   *Params // p itself where the device's half type is float32; nil without one
}

// NewParams allocates zeroed tensors of the given shapes. A shape of one dimension is one row.
func NewParams(dev kernels.Device, shapes []hf.Shape) *Params {
	p := &Params{shapes: shapes, dev: dev}
	return p.over(dev.Alloc(1, p.size()))
}

// size is the number of elements of Flat.
func (p *Params) size() int { return SetSize(p.shapes) }

// SetSize is the number of elements that a set of tensors of these shapes takes, a multiple of sumRow.
func SetSize(shapes []hf.Shape) int {
	total := 0
	for _, s := range shapes {
		total += room(s)
	}
	return (total + sumRow - 1) / sumRow * sumRow
}

// Over returns a set of the same shapes in other memory of the device, as long as p.Flat and with zero gaps.
func (p *Params) Over(flat kernels.Tensor) *Params {
	return (&Params{shapes: p.shapes, dev: p.dev}).over(flat)
}

// WithHalf lets the set keep a copy of itself in the device's half type. Load and Optimizer.Step bring it up to date; whoever
// writes Flat otherwise calls Refresh.
func (p *Params) WithHalf() *Params {
	p.half = p
	if p.dev.Half() != kernels.Float32 {
		p.half = p.Over(p.dev.AllocHalf(1, p.size()))
	}
	return p
}

// Half returns the copy, or the set itself where the half type is float32.
func (p *Params) Half() *Params { return p.half }

// Refresh copies the set to its copy.
func (p *Params) Refresh() {
	if copied := p.copied(); !copied.IsNil() {
		p.dev.Copy(copied, p.Flat)
	}
}

// copied is Flat of the copy, the nil tensor if there is no other memory.
func (p *Params) copied() kernels.Tensor {
	if p.half == nil || p.half == p {
		return kernels.Tensor{}
	}
	return p.half.Flat
}

func (p *Params) over(flat kernels.Tensor) *Params {
	p.Flat = flat
	column, at := flat.Reshape(flat.Len(), 1), 0
	for _, s := range p.shapes {
		rows, cols := matrix(s.Dims)
		p.views = append(p.views, column.RowRange(at, at+rows*cols).Reshape(rows, cols))
		at += room(s)
	}
	return p
}

// room is the number of elements from the begin of a tensor to that of the next.
func room(s hf.Shape) int {
	rows, cols := matrix(s.Dims)
	return (rows*cols + paramAlign - 1) / paramAlign * paramAlign
}

// matrix returns the rows and columns of a tensor of one or two dimensions.
func matrix(dims []int) (rows, cols int) {
	if len(dims) == 1 {
		return 1, dims[0]
	}
	return dims[0], dims[1]
}

// Like returns a zeroed set of the same shapes.
func (p *Params) Like() *Params { return NewParams(p.dev, p.shapes) }

// Len returns the number of tensors.
func (p *Params) Len() int { return len(p.shapes) }

// At returns the name and the tensor of entry i.
func (p *Params) At(i int) (string, kernels.Tensor) { return p.shapes[i].Name, p.views[i] }

// Tensor returns a tensor by name, or the nil tensor if there is none of that name.
func (p *Params) Tensor(name string) kernels.Tensor {
	i := slices.IndexFunc(p.shapes, func(s hf.Shape) bool { return s.Name == name })
	if i < 0 {
		return kernels.Tensor{}
	}
	return p.views[i]
}

// Zero sets every tensor to 0.
func (p *Params) Zero() { p.dev.Zero(p.Flat) }

// Add adds every tensor of q, which has the same shapes.
func (p *Params) Add(q *Params) { p.dev.Add(p.Flat, q.Flat) }

// Read returns a copy of one tensor on the host.
func (p *Params) Read(name string) ([]float32, error) {
	t := p.Tensor(name)
	if t.IsNil() {
		return nil, fmt.Errorf("no parameter %q", name)
	}
	v := make([]float32, t.Len())
	return v, p.ReadAt(v, name, 0)
}

// ReadAt copies one tensor's elements, those from element at on, to dst on the host.
func (p *Params) ReadAt(dst []float32, name string, at int) error {
	t := p.Tensor(name)
	if t.IsNil() {
		return fmt.Errorf("no parameter %q", name)
	}
	p.dev.Download(dst, t.Reshape(t.Len(), 1).RowRange(at, at+len(dst)))
	return p.dev.Sync()
}

// Checksum is that of Flat (kernels.CheckSum), which a device shares out and counts by rows.
func (p *Params) Checksum() (uint64, error) {
	sum := p.dev.CheckFeatures(p.Flat.Reshape(p.Flat.Len()/sumRow, sumRow)).Checksum
	return sum, p.dev.Sync()
}

// Fill sets every tensor on the device.
func (p *Params) Fill(fill Fill) error {
	for i, s := range p.shapes {
		if err := fill(p.views[i], s); err != nil {
			return err
		}
	}
	p.Refresh()
	return p.dev.Sync()
}

// Load fills every tensor from a source.
func (p *Params) Load(from Source) error {
	return p.Fill(func(dst kernels.Tensor, s hf.Shape) error {
		v, err := from(s)
		if err != nil {
			return err
		}
		if len(v) != dst.Len() {
			return fmt.Errorf("tensor %q: %d elements, want %v", s.Name, len(v), s.Dims)
		}
		p.dev.Upload(dst, v)
		return nil
	})
}

// LoadFile fills every tensor from a file, which must have each.
func (p *Params) LoadFile(f File) error { return p.Fill(fromFile(p.dev, f)) }
