// Package gemm is the float32 matrix product of the host: assembly for AVX-512 and AVX2, portable Go, gonum, and,
// where the library is installed, OpenBLAS loaded without cgo.
//
// Of the own paths (avx512, avx2, go) each element of a product is one chain over k, from c (beta 1) or 0, in ascending
// order: c ← c + a·b, fused on avx512 and avx2, which therefore agree bit by bit. The result does not depend on the
// number of goroutines, nor on which other rows and columns are computed beside it. The shape of a product may
// change the order in which gonum and OpenBLAS sum; the number of goroutines does not.
//
// NaN and infinities spread as IEEE 754 says, except on gonum, which skips zeros of a.
package gemm

import (
	"fmt"

	"penstock/kernels/internal/team"
)

// Matrix is a row-major view: element (i, j) is Data[i·Stride+j].
type Matrix struct {
	Rows, Cols, Stride int
	Data               []float32
}

// Dense views v as a rows×cols matrix without gaps.
func Dense(rows, cols int, v []float32) Matrix {
	return Matrix{Rows: rows, Cols: cols, Stride: cols, Data: v}
}

// RowRange returns rows [lo, hi) of m, sharing its memory.
func (m Matrix) RowRange(lo, hi int) Matrix {
	m.Data = m.Data[min(lo*m.Stride, len(m.Data)):]
	m.Rows = hi - lo
	return m
}

// ColRange returns columns [lo, hi) of m, sharing its memory.
func (m Matrix) ColRange(lo, hi int) Matrix {
	m.Data = m.Data[min(lo, len(m.Data)):]
	m.Cols = hi - lo
	return m
}

// Mul sets c = op(a)·op(b) + beta·c, op(x) = xᵀ where the flag is set: c [M, N], op(a) [M, K], op(b) [K, N].
// beta is 0 or 1; with 0, c is not read. c must not overlap a or b. The team shares the work; nil keeps it on the
// caller. Shapes that disagree panic. Safe for use by several goroutines, each with its own team.
func (p *Path) Mul(t *team.Team, c, a, b Matrix, ta, tb bool, beta float32) {
	k := check(c, a, b, ta, tb, beta)
	switch {
	case c.Rows == 0 || c.Cols == 0:
	case k == 0:
		if beta == 0 {
			for i := range c.Rows {
				clear(c.Data[i*c.Stride : i*c.Stride+c.Cols])
			}
		}
	default:
		p.mul(t, c, a, b, ta, tb, beta == 1)
	}
}

// check returns K and panics where the operands disagree.
func check(c, a, b Matrix, ta, tb bool, beta float32) (k int) {
	am, ak := a.Rows, a.Cols
	if ta {
		am, ak = ak, am
	}
	bk, bn := b.Rows, b.Cols
	if tb {
		bk, bn = bn, bk
	}
	if am != c.Rows || bn != c.Cols || ak != bk || beta != 0 && beta != 1 {
		panic(fmt.Sprintf("gemm: c %d×%d, op(a) %d×%d, op(b) %d×%d, beta %v", c.Rows, c.Cols, am, ak, bk, bn, beta))
	}
	for _, m := range []Matrix{c, a, b} {
		if m.Rows > 0 && m.Cols > 0 && (m.Stride < m.Cols || len(m.Data) < (m.Rows-1)*m.Stride+m.Cols) {
			panic(fmt.Sprintf("gemm: %d×%d matrix of stride %d in %d elements", m.Rows, m.Cols, m.Stride, len(m.Data)))
		}
	}
	return ak
}
