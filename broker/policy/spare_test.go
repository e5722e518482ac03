package policy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A rank that has handed back what it can spare keeps as many as it may, the first of its own GPU before any other, in order.
func TestSpare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.SliceOfN(rapid.Bool(), 0, 8).Draw(t, "near")
		keep := rapid.IntRange(0, 4).Draw(t, "keep")
		kept := make([]int, len(near))
		for i := range kept {
			kept[i] = i
		}
		left := slices.Clone(near)
		for i := Spare(left, keep); i >= 0; i = Spare(left, keep) {
			left, kept = slices.Delete(left, i, i+1), slices.Delete(kept, i, i+1)
		}
		var want []int
		for _, own := range []bool{true, false} {
			for i, n := range near {
				if n == own && len(want) < keep {
					want = append(want, i)
				}
			}
		}
		slices.Sort(want)
		if !slices.Equal(kept, want) {
			t.Fatalf("of %v it keeps %v, want %v", near, kept, want)
		}
	})
}

func TestHold(t *testing.T) {
	for _, c := range []struct{ unclaimed, ranks, want int }{{5, 2, 2}, {4, 2, 1}, {0, 2, 1}, {24, 3, 2}, {6, 3, 1}, {1, 0, 2}} {
		if got := Hold(c.unclaimed, c.ranks, 2); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
