//go:build cuda

package cuda

import (
	"slices"
	"strings"
	"testing"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

// shifted returns a tensor of v whose memory begins so many elements behind what alloc gives.
func shifted(d *Device, alloc func(rows, cols int) base.Tensor, rows, cols, by int, v []float32) base.Tensor {
	t := alloc(1, rows*cols+by)
	t.Ptr += uintptr(by * t.Type.Bytes())
	t.Rows, t.Cols = rows, cols
	d.Upload(t, v)
	return t
}

// multiplied is Gemm on d of lattice values, each operand so many elements off; the values are the same for every shift.
func multiplied(d *Device, m, n, k int, ta, tb bool, beta float32, alloc func(rows, cols int) base.Tensor, sx, sw, sc int) []float32 {
	x, w := [2]int{m, k}, [2]int{k, n}
	if ta {
		x = [2]int{k, m}
	}
	if tb {
		w = [2]int{n, k}
	}
	c := shifted(d, alloc, m, n, sc, kernelstest.Pattern(m*n, 3))
	d.Gemm(c, shifted(d, d.AllocHalf, x[0], x[1], sx, kernelstest.Pattern(m*k, 1)), shifted(d, d.AllocHalf, w[0], w[1], sw, kernelstest.Pattern(k*n, 2)), ta, tb, beta)
	return kernelstest.Read(d, c)
}

// exactly is what multiplied is: no sum of these values is rounded, but the result is, to its type.
func exactly(m, n, k int, ta, tb bool, beta float32, to base.Type) []float32 {
	x, w := [2]int{m, k}, [2]int{k, n}
	if ta {
		x = [2]int{k, m}
	}
	if tb {
		w = [2]int{n, k}
	}
	r := new(base.Ref)
	of := func(rows, cols int, seed uint64) base.Tensor {
		t := r.Alloc(rows, cols)
		r.Upload(t, kernelstest.Pattern(rows*cols, seed))
		return t
	}
	c := of(m, n, 3)
	r.Gemm(c, of(x[0], x[1], 1), of(w[0], w[1], 2), ta, tb, beta)
	return rounded(c.F32, to)
}

func rounded(v []float32, to base.Type) []float32 {
	if to == base.BFloat16 {
		half := make([]byte, 2*len(v))
		base.RoundBF16(half, v)
		base.WidenBF16(v, half)
	}
	return v
}

// TestProductsOffAlignment: products of operands that begin at any element are what they should be, to the bit: whatever algorithm is
// taken for how they lie, its sums are float32. What is added to bfloat16 may be rounded before, by cuBLASLt's algorithms for sm_90.
func TestProductsOffAlignment(t *testing.T) {
	shapes := [][3]int{{1, 1, 1}, {1, 9, 1}, {9, 1, 1}, {1, 1, 301}, {1, 72, 512}, {64, 128, 256}, {40, 33, 17}, {200, 64, 1000}}
	for _, half := range []base.Type{base.Float32, base.BFloat16} {
		d := opened(t, 0, half)
		for _, s := range shapes {
			for flags := range 16 {
				ta, tb, beta := flags&1 != 0, flags&2 != 0, float32(flags>>2&1)
				alloc, to := d.Alloc, base.Float32
				if flags&8 != 0 {
					alloc, to = d.AllocHalf, half
				}
				want := exactly(s[0], s[1], s[2], ta, tb, beta, to)
				twice := exactly(s[0], s[1], s[2], ta, tb, 0, to)
				for i, c := range kernelstest.Pattern(len(twice), 3) {
					twice[i] += beta * c
				}
				twice = rounded(twice, to)
				for _, off := range [][3]int{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {2, 4, 1}, {8, 3, 8}} {
					got := multiplied(d, s[0], s[1], s[2], ta, tb, beta, alloc, off[0], off[1], off[2])
					if err := d.Sync(); err != nil {
						t.Fatalf("%v in %v, operands %v elements off: %v", s, half, off, err)
					}
					wrong, first := 0, -1
					for i := range got {
						if got[i] != want[i] && got[i] != twice[i] {
							if wrong++; first < 0 {
								first = i
							}
						}
					}
					if wrong > 0 {
						t.Errorf("%v of %v to %v (ta %v, tb %v, beta %v), operands %v elements off: %d of %d are wrong, element %d is %v, not %v",
							s, half, to, ta, tb, beta, off, wrong, len(got), first, got[first], want[first])
					}
				}
			}
		}
	}
}

// TestPartialSumsStayFloat32: a long product of few rows, which is worth splitting, whose sum cancels: a partial sum that was
// rounded to bfloat16 on the way would show.
func TestPartialSumsStayFloat32(t *testing.T) {
	d := opened(t, 0, base.BFloat16)
	for _, k := range []int{4096, 65536, 1 << 19} {
		for _, m := range []int{1, 16, 64} {
			row := make([]float32, k)
			for i := range k / 2 {
				row[i] = float32(1 + i*7919%5)
				row[k-1-i] = -row[i]
			}
			row[k/3] += 3
			x, w := d.AllocHalf(m, k), d.AllocHalf(m, k)
			ones := make([]float32, k)
			for i := range ones {
				ones[i] = 1
			}
			for i := range m {
				d.Upload(x.RowRange(i, i+1), row)
				d.Upload(w.RowRange(i, i+1), ones)
			}
			y := d.AllocHalf(m, m)
			d.Gemm(y, x, w, false, true, 0)
			for i, v := range kernelstest.Read(d, y) {
				if v != 3 {
					t.Errorf("%d×%d×%d: element %d is %v, want 3", m, m, k, i, v)
					break
				}
			}
			if err := d.Sync(); err != nil {
				t.Fatal(err)
			}
			d.Free(x)
			d.Free(w)
		}
	}
}

// TestProductsRepeatThemselves: a product has the same bits wherever its operands lie, and after its plan has been forgotten for
// those of other lengths. The plans kept are bounded.
func TestProductsRepeatThemselves(t *testing.T) {
	d := opened(t, 0, base.BFloat16)
	d.blas.plans.half = 16
	const m, n, k = 250, 640, 3000
	want := multiplied(d, m, n, k, false, true, 0, d.AllocHalf, 0, 0, 0)
	for round := range 3 {
		for rows := range 40 {
			multiplied(d, 1+rows, 64, 64, false, true, 0, d.AllocHalf, 0, 0, 0)
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		plans := d.blas.plans
		if n := len(plans.young) + len(plans.old); n >= 32 || n < 16 {
			t.Errorf("%d plans are kept, want 16 to 31", n)
		}
		first := planned{product{m, n, k, false, true, 0, base.BFloat16, base.BFloat16}, vector, vector, vector}
		if plans.young[first] != nil || plans.old[first] != nil {
			t.Errorf("the plan of the first product is still there after 40 others")
		}
		by := 8 * (round + 1) // 16 bytes
		if got := multiplied(d, m, n, k, false, true, 0, d.AllocHalf, by, 3*by, 5*by); !slices.Equal(got, want) {
			t.Errorf("round %d: the same product has other bits", round)
		}
	}
}

// TestProductsSayWhatFailed: the library has no products of float32 in bfloat16; the error tells which one was wanted, and
// nothing of it is kept.
func TestProductsSayWhatFailed(t *testing.T) {
	d := opened(t, 0, base.BFloat16)
	x, w, c := at("x", d.Alloc(2, 4)), at("w", d.Alloc(4, 3)), at("c", d.Alloc(2, 3))
	err := d.wait(func() error {
		return d.product(c, x, w, product{m: 2, n: 3, k: 4, from: base.Float32, to: base.BFloat16})
	})
	if err == nil || !strings.HasPrefix(err.Error(), "product 2×3×4 of float32 in bfloat16") || !strings.Contains(err.Error(), "cublasLt") {
		t.Errorf("error %v", err)
	}
	if n := len(d.blas.plans.young) + len(d.blas.plans.old); n != 0 {
		t.Errorf("%d plans of what cannot be done are kept", n)
	}
}
