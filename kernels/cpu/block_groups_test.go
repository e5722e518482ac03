package cpu

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"penstock/kernels"
)

func TestBlockGroups(t *testing.T) {
	for name, c := range map[string]struct {
		blocks []kernels.Block
		want   []blockGroup
	}{
		"none":               {nil, nil},
		"one document":       {[]kernels.Block{{Start: 4, Anchor: 4}, {Start: 4, Anchor: 9}, {Start: 4, Anchor: 9}}, []blockGroup{{0, 3, 4, 9}}},
		"two documents":      {[]kernels.Block{{Start: 0, Anchor: 3}, {Start: 5, Anchor: 6}, {Start: 5, Anchor: 8}}, []blockGroup{{0, 1, 0, 3}, {1, 3, 5, 8}}},
		"anchors that tie":   {[]kernels.Block{{Start: 0, Anchor: 20}, {Start: 20, Anchor: 20}, {Start: 0, Anchor: 20}}, []blockGroup{{0, 3, 0, 20}}},
		"reaching back":      {[]kernels.Block{{Start: 0, Anchor: 3}, {Start: 3, Anchor: 6}, {Start: 1, Anchor: 9}}, []blockGroup{{0, 3, 0, 9}}},
		"empty contexts":     {[]kernels.Block{{Start: 0, Anchor: 0}, {Start: 7, Anchor: 7}}, []blockGroup{{0, 1, 0, 0}, {1, 2, 7, 7}}},
		"first token anchor": {[]kernels.Block{{Start: 0, Anchor: 0}, {Start: 0, Anchor: 5}}, []blockGroup{{0, 2, 0, 5}}},
	} {
		if got := blockGroups(c.blocks); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestBlockGroupsPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var blocks []kernels.Block
		anchor := int32(0)
		for range rapid.IntRange(0, 20).Draw(t, "blocks") {
			anchor += rapid.Int32Range(0, 6).Draw(t, "step")
			blocks = append(blocks, kernels.Block{Start: rapid.Int32Range(0, anchor).Draw(t, "start"), Anchor: anchor})
		}
		next, seen := 0, make([]int, anchor+1)
		for i, g := range blockGroups(blocks) {
			if g.first != next || g.last <= g.first {
				t.Fatalf("group %d is %+v, want one from block %d", i, g, next)
			}
			next = g.last
			for _, b := range blocks[g.first:g.last] {
				if int(b.Start) < g.lo || int(b.Anchor) > g.hi {
					t.Fatalf("block %+v reaches out of its group %+v", b, g)
				}
			}
			for r := g.lo; r < g.hi; r++ {
				if seen[r]++; seen[r] > 1 {
					t.Fatalf("context row %d belongs to two groups", r)
				}
			}
		}
		if next != len(blocks) {
			t.Fatalf("%d of %d blocks are in groups", next, len(blocks))
		}
	})
}
