package kernels_test

import (
	"testing"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
)

func TestArenaStopsAllocating(t *testing.T) {
	a := kernels.NewArena(&ref)
	step := func() {
		a.Reset()
		for _, n := range []int{3, 1 << 20, 700_000, 700_000, 5} {
			a.Get(n, 1)
		}
	}
	step()
	size := a.Size()
	step()
	if a.Size() != size {
		t.Errorf("the second step grew the arena from %d to %d elements", size, a.Size())
	}
	if n := testing.AllocsPerRun(10, step); n != 0 {
		t.Errorf("%v host allocations a step, want 0", n)
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
