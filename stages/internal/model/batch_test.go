package model

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSlots holds the block geometry to its definition over document numbers.
func TestSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 5).Draw(t, "lengths")
		b := &Batch{Offsets: []int32{0}}
		var doc, within []int
		for d, n := range lengths {
			b.Offsets = append(b.Offsets, b.Offsets[d]+int32(n))
			for p := range n {
				doc, within = append(doc, d), append(within, p)
			}
		}
		s := len(doc)
		if s == 0 {
			return
		}
		b.IDs = rapid.SliceOfN(rapid.Int32Range(1, 99), s, s).Draw(t, "ids")
		b.Mask = rapid.SliceOfN(rapid.Uint8Range(0, 1), s, s).Draw(t, "mask")
		b.Anchors = rapid.SliceOfN(rapid.Int32Range(0, int32(s-1)), 0, 6).Draw(t, "anchors")
		slices.Sort(b.Anchors)
		size := rapid.IntRange(1, 8).Draw(t, "size")
		got := newSlots(b, size)
		for n, a := range b.Anchors {
			if start := int32(int(a) - within[a]); got.blocks[n].Start != start || got.blocks[n].Anchor != a {
				t.Fatalf("block %d is %+v, want %d..%d", n, got.blocks[n], start, a)
			}
			for k := range size {
				row, at := int(a)+k, n*size+k
				ok := row < s && k > 0 && doc[min(row, s-1)] == doc[a] && b.Mask[min(row, s-1)] == 1
				if (got.weight[at] == 1) != ok || int(got.pos[at]) != within[a]+k || row < s && got.label[at] != b.IDs[row] {
					t.Fatalf("slot %d of block %d: weight %d, position %d, label %d", k, n, got.weight[at], got.pos[at], got.label[at])
				}
			}
		}
		rows, labels := got.trained()
		for i, r := range rows {
			if got.weight[r] != 1 || labels[i] != got.label[r] {
				t.Fatalf("trained row %d: weight %d, label %d, want %d", r, got.weight[r], labels[i], got.label[r])
			}
		}
		if ones := len(slices.DeleteFunc(slices.Clone(got.weight), func(w uint8) bool { return w == 0 })); len(rows) != ones {
			t.Fatalf("%d trained rows, want %d", len(rows), ones)
		}
	})
}
