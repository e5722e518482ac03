package policy

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestWorkCountsLengths(t *testing.T) {
	var w Work
	w.Add(100, 64)
	w.Add(300, 128)
	if want := (Work{Tokens: 400, Squares: 100_000, Slots: 192}); w != want {
		t.Fatalf("work %+v, want %+v", w, want)
	}
	if got := (Rates{Token: 2, Square: 0.5, Slot: 10}).Of(w); got != 800+50_000+1920 {
		t.Errorf("cost %g", got)
	}
}

func TestCorrectionBeforeItKnows(t *testing.T) {
	var c Correction
	if got := c.Seconds("b64", 3); got != 3 {
		t.Errorf("a new instance expects %g, want the cost", got)
	}
	c.Observe("b64", 2, 8)
	if got := c.Seconds("b512", 3); got != 12 {
		t.Errorf("another bucket expects %g, want the factor of all", got)
	}
	for _, bad := range [][2]float64{{0, 1}, {1, 0}, {-1, 1}, {1, -1}, {math.NaN(), 1}, {1, math.Inf(1)}, {1e-300, 1e300}} {
		c.Observe("b64", bad[0], bad[1])
	}
	if got := c.Seconds("b64", 1); got != 4 {
		t.Errorf("factor %g after measurements that say nothing, want 4", got)
	}
}

func TestCorrectionKeepsBucketsApart(t *testing.T) {
	var c Correction
	for range 20 {
		c.Observe("short", 1, 1)
		c.Observe("long", 1, 3)
	}
	if s, l := c.Seconds("short", 1), c.Seconds("long", 1); s != 1 || l != 3 {
		t.Errorf("factors %g and %g, want 1 and 3", s, l)
	}
}

// A single outlier moves a factor by no more than the gain, wherever it comes once the first measurements are in.
func TestCorrectionResistsOutliers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Correction
		truth := math.Exp(rapid.Float64Range(-5, 5).Draw(t, "truth"))
		noise := rapid.Float64Range(-0.1, 0.1)
		for i := range rapid.IntRange(3, 40).Draw(t, "before") {
			c.Observe("b", 1, truth*(1+noise.Draw(t, fmt.Sprint("noise", i))))
		}
		before := c.Seconds("b", 1)
		c.Observe("b", 1, truth*math.Exp(rapid.Float64Range(-20, 20).Draw(t, "outlier")))
		after := c.Seconds("b", 1)
		if after > before*1.2000001 || after < before*0.8999999 {
			t.Fatalf("one outlier moved the factor from %g to %g", before, after)
		}
	})
}

// A lasting change is followed, however large, and one of the first measurements may be an outlier.
func TestCorrectionFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Correction
		old, now := math.Exp(rapid.Float64Range(-2, 2).Draw(t, "old")), math.Exp(rapid.Float64Range(-2, 2).Draw(t, "now"))
		c.Observe("b", 1, old*1e4)
		for range 4 {
			c.Observe("b", 1, old)
		}
		if got := c.Seconds("b", 1); math.Abs(got/old-1) > 1e-9 {
			t.Fatalf("factor %g behind a bad start, want %g", got, old)
		}
		for range 60 {
			c.Observe("b", 1, now)
		}
		if got := c.Seconds("b", 1); math.Abs(got/now-1) > 0.02 {
			t.Fatalf("factor %g after 60 measurements of %g", got, now)
		}
	})
}
