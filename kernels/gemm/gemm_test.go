package gemm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/kernels/internal/team"
)

// eachPath runs a test on every path of this machine and says which of all there are that was.
func eachPath(t *testing.T, test func(t *testing.T, p *Path)) {
	var tested, absent []string
	for _, name := range []string{"avx512", "avx2", "gonum", "go", "openblas"} {
		if !slices.Contains(Paths(), name) {
			absent = append(absent, name)
			continue
		}
		tested = append(tested, name)
		t.Run(name, func(t *testing.T) {
			p, err := Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			test(t, p)
		})
	}
	t.Logf("paths tested: %s; not on this machine: %s", strings.Join(tested, ", "), strings.Join(absent, ", "))
}

// own tells whether a path makes the promises of this package's kernels.
func own(p *Path) bool { return p.Name() != "gonum" && p.Name() != "openblas" }

// problem is a product with its operands; gaps between rows hold poison.
type problem struct {
	m, n, k int
	ta, tb  bool
	beta    float32
	c, a, b Matrix
}

const poison = 12345

func (q problem) String() string {
	return fmt.Sprintf("%d×%d×%d ta %v tb %v beta %v strides %d %d %d", q.m, q.n, q.k, q.ta, q.tb, q.beta, q.c.Stride, q.a.Stride, q.b.Stride)
}

// newProblem fills the operands with numbers drawn by next; gap widens every stride.
func newProblem(m, n, k int, ta, tb bool, beta float32, gap int, next func() float32) problem {
	fill := func(rows, cols int, transposed bool) Matrix {
		if transposed {
			rows, cols = cols, rows
		}
		x := Matrix{Rows: rows, Cols: cols, Stride: cols + gap, Data: make([]float32, rows*(cols+gap))}
		for i := range x.Data {
			x.Data[i] = poison
			if i%x.Stride < cols {
				x.Data[i] = next()
			}
		}
		return x
	}
	return problem{m, n, k, ta, tb, beta, fill(m, n, false), fill(m, k, ta), fill(k, n, tb)}
}

// lattice returns a generator of numbers in (-1, 1) that does not repeat with any small period.
func lattice() func() float32 {
	x := uint32(1)
	return func() float32 {
		x = x*1664525 + 1013904223
		return float32(int32(x)) / (1 << 31)
	}
}

// wide returns op(x), or its transpose, row by row in float64.
func wide(x Matrix, transposed bool) [][]float64 {
	if transposed {
		rows := wide(x, false)
		columns := make([][]float64, x.Cols)
		for j := range columns {
			columns[j] = make([]float64, x.Rows)
			for i := range rows {
				columns[j][i] = rows[i][j]
			}
		}
		return columns
	}
	rows := make([][]float64, x.Rows)
	for i := range rows {
		rows[i] = make([]float64, x.Cols)
		for j := range rows[i] {
			rows[i][j] = float64(x.Data[i*x.Stride+j])
		}
	}
	return rows
}

// solve multiplies into a copy of c.
func (q problem) solve(p *Path, t *team.Team) Matrix {
	c := q.c
	c.Data = slices.Clone(c.Data)
	p.Mul(t, c, q.a, q.b, q.ta, q.tb, q.beta)
	return c
}

// verify compares c with the sum in float64: each element may be off by the rounding of k additions, and gaps are as they were.
func (q problem) verify(t interface{ Fatalf(string, ...any) }, c Matrix) {
	rows, columns, before, after := wide(q.a, q.ta), wide(q.b, !q.tb), wide(q.c, false), wide(c, false)
	for i := range q.m {
		for j := range q.n {
			sum, size := float64(q.beta)*before[i][j], 1.0
			for p, v := range rows[i] {
				v *= columns[j][p]
				sum, size = sum+v, size+math.Abs(v)
			}
			if got := after[i][j]; !(math.Abs(got-sum) <= size*float64(q.k+2)*0x1p-24) {
				t.Fatalf("%v: c[%d, %d] = %v, want %v", q, i, j, got, sum)
			}
		}
	}
	for i, v := range c.Data {
		if i%c.Stride >= q.n && v != poison {
			t.Fatalf("%v: element %d, outside c, was written: %v", q, i, v)
		}
	}
}

func TestRandomShapes(t *testing.T) {
	two := team.New(2)
	defer two.Close()
	eachPath(t, func(t *testing.T, p *Path) {
		rapid.Check(t, func(t *rapid.T) {
			size := rapid.IntRange(0, 70)
			flip := rapid.Bool()
			q := newProblem(size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k"), flip.Draw(t, "ta"), flip.Draw(t, "tb"),
				float32(rapid.IntRange(0, 1).Draw(t, "beta")), rapid.IntRange(0, 3).Draw(t, "gap"), lattice())
			q.verify(t, q.solve(p, two))
		})
	})
}

// TestOddSizes takes every size from 1 to 70 as each of m, n and k.
func TestOddSizes(t *testing.T) {
	eachPath(t, func(t *testing.T, p *Path) {
		for m := 1; m <= 70; m++ {
			for flags := range 8 {
				q := newProblem(m, (m*29)%70+1, (m*41)%70+1, flags&1 != 0, flags&2 != 0, float32(flags>>2), m%3, lattice())
				q.verify(t, q.solve(p, nil))
			}
		}
	})
}

func TestLargeShapes(t *testing.T) {
	two := team.New(2)
	defer two.Close()
	eachPath(t, func(t *testing.T, p *Path) {
		for _, s := range []struct{ m, n, k int }{
			{385, 257, 513}, {401, 130, 300}, {64, 128, 1250}, {128, 384, 257}, {7, 2048, 130}, {8, 100, 1030}, {9, 300, 600}, {1, 12, 512},
		} {
			for flags := range 4 {
				q := newProblem(s.m, s.n, s.k, flags&1 != 0, flags&2 != 0, float32(s.k%2), 0, lattice())
				q.verify(t, q.solve(p, two))
			}
		}
	})
}

// TestResultIsIndependentOfSharing: neither threads nor the other rows and columns change a bit.
func TestResultIsIndependentOfSharing(t *testing.T) {
	eachPath(t, func(t *testing.T, p *Path) {
		for _, s := range []struct{ m, n, k int }{{200, 128, 128}, {130, 2048, 128}, {513, 130, 700}, {19, 100, 40}, {8, 300, 1100}} {
			for flags := range 4 {
				q := newProblem(s.m, s.n, s.k, flags&1 != 0, flags&2 != 0, 1, 1, lattice())
				want := q.solve(p, nil)
				for _, threads := range []int{2, 3, 8} {
					shared := team.New(threads)
					if got := q.solve(p, shared); !slices.Equal(got.Data, want.Data) {
						t.Errorf("%v: %d threads change the result", q, threads)
					}
					shared.Close()
				}
				if own(p) {
					for _, rows := range []int{1, 3, 8, 17} {
						if got := q.byRows(p, rows); !slices.Equal(got.Data, want.Data) {
							t.Errorf("%v: computing %d rows at a time changes the result", q, rows)
						}
					}
				}
			}
		}
	})
}

// byRows solves a few rows at a time, over two halves of the columns.
func (q problem) byRows(p *Path, rows int) Matrix {
	c := q.c
	c.Data = slices.Clone(c.Data)
	half := q.n/2 + 1
	for i := 0; i < q.m; i += rows {
		hi := min(i+rows, q.m)
		a := q.a.RowRange
		if q.ta {
			a = q.a.ColRange
		}
		b := q.b.ColRange
		if q.tb {
			b = q.b.RowRange
		}
		p.Mul(nil, c.RowRange(i, hi).ColRange(0, half), a(i, hi), b(0, half), q.ta, q.tb, q.beta)
		p.Mul(nil, c.RowRange(i, hi).ColRange(half, q.n), a(i, hi), b(half, q.n), q.ta, q.tb, q.beta)
	}
	return c
}

// TestVectorPathsAgree: avx512 and avx2 give the same bits where both run, so a run may move between machines.
func TestVectorPathsAgree(t *testing.T) {
	var ps []*Path
	for _, name := range []string{"avx512", "avx2"} {
		if p, err := Lookup(name); err == nil {
			ps = append(ps, p)
		}
	}
	t.Logf("%d of 2 vector paths run here", len(ps))
	for _, s := range []struct{ m, n, k int }{{13, 33, 300}, {100, 64, 1000}, {5, 70, 70}} {
		q := newProblem(s.m, s.n, s.k, false, true, 1, 0, lattice())
		for _, p := range ps {
			if !slices.Equal(q.solve(p, nil).Data, q.solve(ps[0], nil).Data) {
				t.Errorf("%v: %s and %s differ", q, p.Name(), ps[0].Name())
			}
		}
	}
}

func TestNaNAndInfinitySpread(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachPath(t, func(t *testing.T, p *Path) {
		for _, m := range []int{3, 20} {
			for flags := range 4 {
				q := newProblem(m, 37, 21, flags&1 != 0, flags&2 != 0, 0, 0, func() float32 { return 1 })
				put := func(x Matrix, i, j int, transposed bool, v float32) {
					if transposed {
						i, j = j, i
					}
					x.Data[i*x.Stride+j] = v
				}
				put(q.a, 0, 4, q.ta, nan)
				put(q.a, 1, 5, q.ta, inf)
				put(q.b, 5, 36, q.tb, 0)
				if p.Name() == "gonum" {
					put(q.b, 5, 36, q.tb, -1)
				}
				// beta is 0: what c holds must not matter.
				for i := range q.c.Data {
					q.c.Data[i] = nan
				}
				c := q.solve(p, nil)
				for j := range q.n {
					want := inf
					if j == 36 {
						want = nan // ∞·0
						if p.Name() == "gonum" {
							want = -inf
						}
					}
					if got := c.Data[j]; got == got {
						t.Errorf("%v: c[0, %d] = %v, want NaN", q, j, got)
					}
					if got := c.Data[c.Stride+j]; got != want && (got == got || want == want) {
						t.Errorf("%v: c[1, %d] = %v, want %v", q, j, got, want)
					}
					if got := c.Data[2*c.Stride+j]; j < 36 && got != float32(q.k) {
						t.Errorf("%v: c[2, %d] = %v, want %v", q, j, got, q.k)
					}
				}
			}
		}
	})
}

func TestEmptyProducts(t *testing.T) {
	eachPath(t, func(t *testing.T, p *Path) {
		for _, s := range []struct{ m, n, k int }{{0, 3, 3}, {3, 0, 3}, {0, 0, 0}} {
			p.Mul(nil, Dense(s.m, s.n, nil), Dense(s.m, s.k, make([]float32, s.m*s.k)), Dense(s.k, s.n, make([]float32, s.k*s.n)), false, false, 0)
		}
		c := []float32{1, 2, 3, 4}
		p.Mul(nil, Dense(2, 2, c), Dense(2, 0, nil), Dense(0, 2, nil), false, false, 1)
		if !slices.Equal(c, []float32{1, 2, 3, 4}) {
			t.Errorf("no products added with beta 1 leave %v", c)
		}
		p.Mul(nil, Dense(2, 2, c), Dense(2, 0, nil), Dense(0, 2, nil), false, false, 0)
		if !slices.Equal(c, make([]float32, 4)) {
			t.Errorf("the empty sum is %v", c)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	two := team.New(2)
	defer two.Close()
	eachPath(t, func(t *testing.T, p *Path) {
		if !own(p) {
			return
		}
		for _, m := range []int{4, 40, 800} {
			q := newProblem(m, 128, 300, m == 40, true, 0, 0, lattice())
			if n := testing.AllocsPerRun(20, func() { p.Mul(two, q.c, q.a, q.b, q.ta, q.tb, 0) }); n != 0 {
				t.Errorf("%v: %v allocations", q, n)
			}
		}
	})
}

func TestShapesThatDisagreePanic(t *testing.T) {
	for name, f := range map[string]func(){
		"k": func() {
			Current().Mul(nil, Dense(2, 2, make([]float32, 4)), Dense(2, 3, make([]float32, 6)), Dense(2, 2, make([]float32, 4)), false, false, 0)
		},
		"beta": func() {
			Current().Mul(nil, Dense(1, 1, []float32{1}), Dense(1, 1, []float32{1}), Dense(1, 1, []float32{1}), false, false, 2)
		},
		"length": func() {
			Current().Mul(nil, Dense(1, 2, []float32{1}), Dense(1, 1, []float32{1}), Dense(1, 2, []float32{1, 2}), false, false, 0)
		},
		"stride": func() {
			Current().Mul(nil, Matrix{2, 2, 1, make([]float32, 4)}, Dense(2, 1, []float32{1, 1}), Dense(1, 2, []float32{1, 2}), false, false, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}
