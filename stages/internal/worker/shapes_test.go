package worker

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLargestCoversAll: each size is reached in both by one of the front, which is a part of the sizes, and of which none
// reaches another.
func TestLargestCoversAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sizes []size
		for i := range rapid.IntRange(0, 20).Draw(t, "batches") {
			sizes = append(sizes, size{rapid.IntRange(1, 9).Draw(t, "tokens"), rapid.IntRange(0, 9).Draw(t, "anchors"), i})
		}
		reaches := func(a, b size) bool { return a.tokens >= b.tokens && a.anchors >= b.anchors }
		front := largest(slices.Clone(sizes))
		for _, s := range sizes {
			if !slices.ContainsFunc(front, func(f size) bool { return reaches(f, s) }) {
				t.Errorf("nothing of %v reaches %v", front, s)
			}
		}
		for i, f := range front {
			if !slices.Contains(sizes, f) {
				t.Errorf("%v is none of %v", f, sizes)
			}
			for j, g := range front {
				if i != j && reaches(f, g) {
					t.Errorf("%v reaches %v", f, g)
				}
			}
		}
	})
}
