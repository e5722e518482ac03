package sim

import (
	"math"
	"testing"
)

// Two jobs on one device take as long as both, and one that ends leaves its share to the other.
func TestDeviceIsShared(t *testing.T) {
	var c clock
	d := &device{clock: &c}
	ends := map[string]float64{}
	start := func(name string, seconds float64) *job {
		return d.start(seconds, func() { ends[name] = c.now })
	}
	start("long", 10)
	start("short", 2)
	var cancelled *job
	c.after(6, func() { cancelled = start("cancelled", 100) })
	c.after(8, func() { d.cancel(cancelled) })
	for c.step() {
	}
	// Both share until short has its 2 s at 4; long has 8 left, 6 at 6 s, 5 at 8 s.
	for name, want := range map[string]float64{"short": 4, "long": 13} {
		if math.Abs(ends[name]-want) > 1e-9 {
			t.Errorf("%s ended at %g, want %g", name, ends[name], want)
		}
	}
	if _, ok := ends["cancelled"]; ok {
		t.Error("a cancelled job ended")
	}
}

func TestClockKeepsOrder(t *testing.T) {
	var c clock
	var got []int
	for i, at := range []float64{2, 1, 2, 0, 1} {
		c.after(at, func() { got = append(got, i) })
	}
	for c.step() {
	}
	want := []int{3, 1, 4, 0, 2}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("order %v, want %v", got, want)
		}
	}
}
