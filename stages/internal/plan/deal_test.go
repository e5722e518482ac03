package plan

import (
	"testing"

	"pgregory.net/rapid"
)

func abs(n int) int { return max(n, -n) }

// TestDeal checks the rule of the mix in integers: |x/size - n/total| < 1/size becomes |x·total - size·n| < total.
func TestDeal(t *testing.T) {
	count := rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, 40), rapid.IntRange(1, 2000))
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(count, 1, 20).Draw(t, "counts")
		size := rapid.OneOf(rapid.IntRange(1, 4), rapid.IntRange(1, 64)).Draw(t, "size")
		checkDeal(t, counts, size)
	})
}

func TestDealCases(t *testing.T) {
	for _, c := range []struct {
		counts []int
		size   int
	}{
		{[]int{1}, 1}, {[]int{1}, 5}, {[]int{5}, 5}, {[]int{7, 1}, 4}, {[]int{1, 1, 1, 1, 1, 1, 1}, 2}, {[]int{100, 1, 1}, 10},
		{[]int{40, 25, 12, 8, 6, 4, 3, 2}, 24}, {[]int{4000, 2500, 1200, 800, 600, 400, 300, 200}, 24}, {[]int{99, 1}, 100},
		{[]int{17, 17, 17, 17, 17, 17}, 13}, {[]int{1000, 999, 998, 2}, 1},
		// Mixes that choosing by deadline alone, or without the group's deadline, gets wrong.
		{[]int{3, 6, 4, 6, 8}, 3}, {[]int{6, 2, 3, 3, 4}, 4}, {[]int{3, 3, 3, 4, 4}, 4}, {[]int{3, 2, 2, 2, 2, 2, 3}, 5},
	} {
		checkDeal(t, c.counts, c.size)
	}
}

type fataler interface{ Fatalf(string, ...any) }

func checkDeal(t fataler, counts []int, size int) {
	rows := deal(counts, size)
	total := sum(counts)
	if len(rows) != ceil(total, size)+1 {
		t.Fatalf("%v by %d: %d windows, want %d", counts, size, len(rows)-1, ceil(total, size))
	}
	for w := 1; w < len(rows); w++ {
		done := min(w*size, total)
		here := done - (w-1)*size
		if sum(rows[w]) != done {
			t.Fatalf("%v by %d: windows to %d hold %d batches, want %d", counts, size, w, sum(rows[w]), done)
		}
		for b, n := range counts {
			x, before := rows[w][b], rows[w-1][b]
			if x < before {
				t.Fatalf("%v by %d: window %d takes bucket %d back", counts, size, w-1, b)
			}
			if abs(x*total-done*n) >= total {
				t.Fatalf("%v by %d: prefix %d has %d of bucket %d, off its share by a batch", counts, size, w, x, b)
			}
			if abs((x-before)*total-here*n) >= total {
				t.Fatalf("%v by %d: window %d has %d of bucket %d, off its share by a batch", counts, size, w-1, x-before, b)
			}
		}
	}
	for b, n := range rows[len(rows)-1] {
		if n != counts[b] {
			t.Fatalf("%v by %d: bucket %d ends with %d", counts, size, b, n)
		}
	}
}

func BenchmarkDeal(b *testing.B) {
	for b.Loop() {
		deal([]int{40000, 25000, 12000, 8000, 6000, 4000, 3000, 2000}, 24)
	}
}
