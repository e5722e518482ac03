package kernels_test

import (
	"testing"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
)

func TestArenaHoldsItsLargestStep(t *testing.T) {
	a := kernels.NewArena(&ref)
	aligned := func(n int) int { return (n + 63) / 64 * 64 }
	step := func(sizes ...int) {
		a.Reset()
		for _, n := range sizes {
			m := a.Mark()
			a.Get(2*n, 1)
			a.Release(m)
			a.Get(n, 1)
		}
	}
	sizes, larger := []int{3, 1 << 20, 700_000, 700_000, 5}, []int{5, 1 << 20, 800_000, 900_000}
	most := func(sizes []int) (need int) {
		held := 0
		for _, n := range sizes {
			need = max(need, held+aligned(2*n))
			held += aligned(n)
		}
		return max(need, held)
	}
	largest := 0
	for _, s := range [][]int{sizes, larger, sizes} {
		step(s...)
		step(s...)
		if largest = max(largest, most(s)); a.Size() != largest {
			t.Errorf("steps of %v: the arena holds %d float32, the largest step needed %d", s, a.Size(), largest)
		}
		if n := testing.AllocsPerRun(10, func() { step(s...) }); n != 0 {
			t.Errorf("%v host allocations a step of %v, want 0", n, s)
		}
	}
}

func TestArenaReserves(t *testing.T) {
	a := kernels.NewArena(&ref)
	a.Get(100, 1)
	a.Reset()
	a.Reserve(4 * (5 << 20))
	if a.Size() != 5<<20 {
		t.Errorf("the arena holds %d float32, want what was reserved", a.Size())
	}
	for range 2 {
		a.Get(2<<20, 1)
		a.Get(3<<20, 1)
		a.Reset()
	}
	a.Reserve(4)
	if a.Size() != 5<<20 {
		t.Errorf("the arena holds %d float32 behind steps that take what was reserved", a.Size())
	}
}

func TestArenaTensorsAreApart(t *testing.T) {
	a := kernels.NewArena(&ref)
	x, m := a.ZeroHalf(3, 7), a.Mark()
	y := a.Get(5, 9)
	ref.Upload(y, kernelstest.Pattern(45, 1))
	for i, v := range x.F32 {
		if v != 0 {
			t.Fatalf("x[%d] = %v after writing y", i, v)
		}
	}
	a.Release(m)
	if z := a.Get(1, 1); &z.F32[0] != &y.F32[0] {
		t.Error("released memory is not used again")
	}
}

// halving is a device whose half type is BFloat16, with nothing but addresses.
type halving struct {
	kernels.Ref
	end uintptr
}

func (*halving) Half() kernels.Type { return kernels.BFloat16 }

func (d *halving) Alloc(rows, cols int) kernels.Tensor {
	t := kernels.Tensor{Rows: rows, Cols: cols, Ptr: 4096 + d.end}
	d.end += uintptr(t.Bytes())
	return t
}

func TestArenaOfHalves(t *testing.T) {
	a := kernels.NewArena(&halving{})
	x, y, z := a.Half(3, 43), a.Half(1, 1), a.Get(2, 2)
	if x.Type != kernels.BFloat16 || x.Rows != 3 || x.Cols != 43 || y.Ptr != x.Ptr+512 || z.Ptr != y.Ptr+256 || z.Type != kernels.Float32 {
		t.Errorf("258 bytes, 2 and 16 bytes lie at %+v, %+v, %+v", x, y, z)
	}
	if a.Reset(); a.Half(1<<21, 1).Ptr != x.Ptr {
		t.Error("a million float32 do not hold two million halves")
	}
}
