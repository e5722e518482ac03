// Package cpu is the fast host device: goroutines over rows, heads and documents, assembly for matrix products and
// exponentials, float32 throughout. It gives the same bits for any number of goroutines: work is cut where the shapes
// say, never by who is free, and sums across parts are taken in their order.
package cpu

import (
	"fmt"
	"runtime"

	"penstock/kernels"
	"penstock/kernels/gemm"
	"penstock/kernels/internal/team"
)

// Options choose what a device runs on.
type Options struct {
	Threads int    // goroutines that share an op; 0: GOMAXPROCS
	Gemm    string // one of gemm.Paths; empty: gemm.Current
}

// Device computes on the host. Ops that it does not override are those of Ref.
type Device struct {
	kernels.Ref
	path *gemm.Path
	team *team.Team

	sums  []float32 // partial sums of one op
	ropes []*ropeTable
	work  team.Free[scratch]
}

var _ kernels.Device = (*Device)(nil)

// New starts a device. It fails if this machine cannot run the matrix product asked for.
func New(o Options) (*Device, error) {
	path, err := gemm.Lookup(o.Gemm)
	if err != nil {
		return nil, fmt.Errorf("cpu device: %w", err)
	}
	threads := o.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	return &Device{path: path, team: team.New(threads)}, nil
}

// Name is "cpu/" and the matrix product's name.
func (d *Device) Name() string { return "cpu/" + d.path.Name() }

// Close ends the device's goroutines.
func (d *Device) Close() error {
	d.team.Close()
	return nil
}

// chunk is the number of elements from which a simple loop is worth sharing, a multiple of 16.
const chunk = 1 << 14

// each calls fn for ranges of n elements of about equal cost. Ranges depend on n alone.
func (d *Device) each(n int, fn func(lo, hi int)) { d.ranges(n, chunk, fn) }

// rows calls fn for ranges of n rows of so many elements.
func (d *Device) rows(n, cols int, fn func(lo, hi int)) {
	d.ranges(n, max(1, chunk/max(1, cols)), fn)
}

func (d *Device) ranges(n, size int, fn func(lo, hi int)) {
	parts := ceil(n, size)
	if parts <= 1 {
		if n > 0 {
			fn(0, n)
		}
		return
	}
	d.team.Run(parts, func(i int) { fn(i*size, min((i+1)*size, n)) })
}

// partial returns n zeroed floats for partial sums, valid until the next call.
func (d *Device) partial(n int) []float32 {
	s := grow(&d.sums, n)
	clear(s)
	return s
}

// grow returns the first n elements of *v, making it longer if need be; contents are undefined.
func grow(v *[]float32, n int) []float32 {
	if cap(*v) < n {
		*v = make([]float32, n)
	}
	return (*v)[:n]
}

// row returns row i of t.
func row(t kernels.Tensor, i int) []float32 {
	return t.F32[i*t.Cols : (i+1)*t.Cols : (i+1)*t.Cols]
}

func ceil(a, b int) int { return (a + b - 1) / b }

// pad rounds up to the multiple that vector loops take.
func pad(n int) int { return (n + 15) &^ 15 }
