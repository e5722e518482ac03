package cpu

import "penstock/kernels"

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

// blockTask is consecutive tiles of one group for one key head: a part of the group's work.
type blockTask struct {
	kv, part    int
	first, last int // blocks
}

// blockTasks cuts every group into at most parts tasks of whole tiles.
func blockTasks(blocks []kernels.Block, size int, h kernels.Heads, parts int) []blockTask {
	var all []blockTask
	tile := tileBlocks(size, h)
	for _, g := range blockGroups(blocks) {
		step := ceil(ceil(g.last-g.first, tile), parts) * tile
		for part, first := 0, g.first; first < g.last; part, first = part+1, first+step {
			for kv := range h.KV {
				all = append(all, blockTask{kv, part, first, min(first+step, g.last)})
			}
		}
	}
	return all
}

// tileBlocks is the number of blocks of a tile.
func tileBlocks(size int, h kernels.Heads) int { return max(1, newGroup(h, 0).queries()/size) }

// tiles calls fn for the task's tiles in order.
func (t blockTask) tiles(size int, h kernels.Heads, fn func(first, last int)) {
	step := tileBlocks(size, h)
	for first := t.first; first < t.last; first += step {
		fn(first, min(first+step, t.last))
	}
}
