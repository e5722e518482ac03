package cpu

import (
	"cmp"
	"slices"

	"penstock/kernels"
)

// blockGroup is a run of blocks whose contexts overlap, as a rule those of one document. Contexts of different groups do
// not overlap, so that each group's gradients can be summed by one goroutine.
type blockGroup struct {
	first, last int // blocks [first, last)
	lo, hi      int // their contexts lie within rows [lo, hi)
}

// blockGroups finds the groups of blocks sorted by anchor. A block that begins before the end of the group behind it
// joins that group, and with it every group that it reaches back into.
func blockGroups(blocks []kernels.Block) []blockGroup {
	var all []blockGroup
	for i, b := range blocks {
		g := blockGroup{first: i, last: i + 1, lo: int(b.Start), hi: int(b.Anchor)}
		for n := len(all) - 1; n >= 0 && all[n].hi > g.lo; n-- {
			g.first, g.lo = all[n].first, min(g.lo, all[n].lo)
			all = all[:n]
		}
		if n := len(all) - 1; n >= 0 && all[n].lo == g.lo {
			g.first = all[n].first // an empty context before it, of the same document
			all = all[:n]
		}
		all = append(all, g)
	}
	return all
}

// groupHead is a group for one key head.
type groupHead struct {
	blockGroup
	kv int
}

// groupHeads lists every group for every key head, the most expensive first.
func groupHeads(blocks []kernels.Block, h kernels.Heads) []groupHead {
	var all []groupHead
	for _, g := range blockGroups(blocks) {
		for kv := range h.KV {
			all = append(all, groupHead{g, kv})
		}
	}
	cost := func(g groupHead) int { return (g.last - g.first) * (g.hi - g.lo + 1) }
	slices.SortStableFunc(all, func(a, b groupHead) int { return cmp.Compare(cost(b), cost(a)) })
	return all
}
