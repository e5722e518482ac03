//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	base "penstock/kernels"
)

// product is c [m, n] = op(x) [m, k]·op(w) [k, n] + beta·c, none of the sizes 0. from is the type of x and w, to that of c.
type product struct {
	m, n, k  int
	ta, tb   bool
	beta     float32
	from, to base.Type
}

func (p product) String() string {
	return fmt.Sprintf("%d×%d×%d of %v in %v (transposed: %v, %v; beta %v)", p.m, p.n, p.k, p.from, p.to, p.ta, p.tb, p.beta)
}

// planned is what the choice of an algorithm depends on: a product, and what the addresses of w, x and c are multiples of. It is the
// same for all that are multiples of 16 bytes, so that bits do not depend on where a tensor lies.
type planned struct {
	product
	w, x, c address
}

const vector = 16 // bytes that the GPU loads at once

func alignment(p address) address { return min(vector, p&-p) }

// plansKept is how many products are remembered: a step has some dozens, but other ones where its batch has another length.
const plansKept = 1024

// plan is how the library does a product.
type plan struct {
	operation uintptr
	layouts   [3]uintptr // of its first operand, its second, and its result
	algorithm [8]uint64  // cublasLtMatmulAlgo_t
}

// factors are read by the library during its calls.
var factors = [2]float32{0, 1}

// product enqueues a product of row-major matrices; it runs on the device's thread. The library is column-major: it computes
// cᵀ = op(w)ᵀ·op(x)ᵀ.
func (d *Device) product(c, x, w address, p product) error {
	space, err := d.scratch(splits, d.blas.space)
	if err == nil {
		err = d.blas.product(c, x, w, space, p)
	}
	if err != nil {
		return fmt.Errorf("product %v: %w", p, err)
	}
	return nil
}

func (b *blas) product(c, x, w, space address, p product) error {
	plan, err := b.plans.get(planned{p, alignment(w), alignment(x), alignment(c)})
	if err != nil {
		return err
	}
	one, add := uintptr(unsafe.Pointer(&factors[1])), uintptr(unsafe.Pointer(&factors[int(p.beta)]))
	return b.call(b.multiply, b.handle, plan.operation, one, uintptr(w), plan.layouts[0], uintptr(x), plan.layouts[1],
		add, uintptr(c), plan.layouts[2], uintptr(c), plan.layouts[2],
		uintptr(unsafe.Pointer(&plan.algorithm)), uintptr(space), uintptr(b.space), b.stream)
}

// The numbers of cublasLt.h, which are the same from CUDA 11 on.
const (
	compute32F        = 68 // CUBLAS_COMPUTE_32F: sums of float32, and no TF32
	attributeTransA   = 3  // CUBLASLT_MATMUL_DESC_TRANSA, 4 bytes
	attributeTransB   = 4  // CUBLASLT_MATMUL_DESC_TRANSB, 4 bytes
	attributeSpace    = 1  // CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8 bytes
	attributeSplits   = 3  // CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4 bytes
	attributeAlignedA = 5  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4 bytes; those of B, C and D are the next
	splitsOfSums      = 2  // CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: no partial sum is rounded to the type of c, and they are added in a fixed order
)

// found is cublasLtMatmulHeuristicResult_t.
type found struct {
	algorithm [8]uint64
	space     uint64
	status    int32
	waves     float32
	_         [4]int32
}

// plan describes a product to the library and takes the first algorithm that it names, without trying any: the same each time.
func (b *blas) plan(k planned) (*plan, error) {
	p := &plan{}
	s := steps{b: b}
	s.call(b.newOperation, uintptr(unsafe.Pointer(&p.operation)), compute32F, blasType(base.Float32))
	s.set(b.setOperation, p.operation, attributeTransA, flag(k.tb), 4)
	s.set(b.setOperation, p.operation, attributeTransB, flag(k.ta), 4)
	s.layout(&p.layouts[0], k.from, k.k, k.n, k.tb)
	s.layout(&p.layouts[1], k.from, k.m, k.k, k.ta)
	s.layout(&p.layouts[2], k.to, k.m, k.n, false)

	var preference uintptr
	s.call(b.newPreference, uintptr(unsafe.Pointer(&preference)))
	s.set(b.setPreference, preference, attributeSpace, uint64(b.space), 8)
	s.set(b.setPreference, preference, attributeSplits, splitsOfSums, 4)
	for i, of := range []address{k.w, k.x, k.c, k.c} {
		s.set(b.setPreference, preference, attributeAlignedA+uintptr(i), uint64(of), 4)
	}
	var first found
	var n int32
	s.call(b.heuristic, b.handle, p.operation, p.layouts[0], p.layouts[1], p.layouts[2], p.layouts[2], preference,
		1, uintptr(unsafe.Pointer(&first)), uintptr(unsafe.Pointer(&n)))
	if s.err == nil && (n == 0 || first.status != 0) {
		s.err = fmt.Errorf("cublasLtMatmulAlgoGetHeuristic: no algorithm (operands aligned to %d, %d and %d bytes, status %d)", k.x, k.w, k.c, first.status)
	}
	if preference != 0 {
		s.err = errors.Join(s.err, b.call(b.dropPreference, preference))
	}
	if s.err != nil {
		return nil, errors.Join(s.err, b.forget(p))
	}
	p.algorithm = first.algorithm
	return p, nil
}

// forget gives the descriptors of a plan back. Products that are enqueued need them no more.
func (b *blas) forget(p *plan) error {
	var errs []error
	if p.operation != 0 {
		errs = append(errs, b.call(b.dropOperation, p.operation))
	}
	for _, l := range p.layouts {
		if l != 0 {
			errs = append(errs, b.call(b.dropLayout, l))
		}
	}
	return errors.Join(errs...)
}

// steps makes calls up to the first that fails.
type steps struct {
	b   *blas
	err error
}

//go:uintptrescapes
func (s *steps) call(f function, args ...uintptr) {
	if s.err == nil {
		s.err = s.b.call(f, args...)
	}
}

// set gives an attribute of so many bytes a value.
func (s *steps) set(f function, of, attribute uintptr, value uint64, bytes uintptr) {
	s.call(f, of, attribute, uintptr(unsafe.Pointer(&value)), bytes)
}

// layout describes a row-major matrix that is [rows, cols] once it is transposed if asked for.
func (s *steps) layout(at *uintptr, of base.Type, rows, cols int, transposed bool) {
	if transposed {
		rows, cols = cols, rows
	}
	s.call(s.b.newLayout, uintptr(unsafe.Pointer(at)), blasType(of), uintptr(cols), uintptr(rows), uintptr(cols))
}

// blasType is a type's number in cudaDataType.
func blasType(t base.Type) uintptr {
	if t == base.BFloat16 {
		return 14 // CUDA_R_16BF
	}
	return 0 // CUDA_R_32F
}

func flag(t bool) uint64 {
	if t {
		return 1
	}
	return 0
}
