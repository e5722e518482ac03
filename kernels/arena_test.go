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
	x, m := a.Zeroed(3, 7), a.Mark()
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
