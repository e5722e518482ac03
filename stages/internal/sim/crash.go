package sim

import (
	"cmp"
	"slices"

	"penstock/schema"
	"penstock/stages/internal/scenario"
)

// crash ends an instance: what it held is handed back at once, and its successor starts after a while.
func (w *world) crash(c scenario.Crash) {
	i := w.instance(c.Instance)
	if i == nil || i.down {
		return
	}
	i.down = true
	i.lives++
	if i.job != nil {
		i.dev.cancel(i.job)
	}
	b := i.batch
	i.batch, i.job = nil, nil
	i.idle(down)
	if i.stage == draftStage {
		w.voidRank(i)
	} else {
		w.voidPool(i, b)
	}
	w.after(c.Down, func() {
		i.down = false
		if i.stage == draftStage {
			w.epoch()
		}
	})
}

// epoch begins a new rank epoch, of the ranks that are up.
func (w *world) epoch() {
	e := schema.RankEpoch{Gen: 1, Window: w.lineage.Next, RankEpoch: w.lineage.Epoch + 1}
	for _, r := range w.ranks {
		if !r.down {
			e.Members, e.Incarnations = append(e.Members, r.name), append(e.Incarnations, r.incarnation())
		}
	}
	w.apply(e)
}

func (w *world) instance(name string) *instance {
	for _, i := range w.all() {
		if i.name == name {
			return i
		}
	}
	return nil
}

// voidPool hands the roots of everything in a dead owner's slots back.
func (w *world) voidPool(i *instance, current *batch) {
	for _, o := range i.pool.Occupied() {
		b := w.batches[o.Batch.Index]
		u := use{i, schema.SlotRef{Pool: i.name, Incarnation: i.poolIncarnation, Slot: o.Slot, Generation: o.Generation}}
		switch {
		case u != b.capture && u != b.packed: // of an attempt that was given up
			u.release(b)
		case b.state == training: // the rank has read it
			b.packed.release(b)
		case b.state == copying && b == current: // the target still has it
			b.packed.release(b)
			b.state = captured
			at, _ := slices.BinarySearchFunc(w.hops, b, func(x, y *batch) int { return cmp.Compare(x.Index, y.Index) })
			w.hops = slices.Insert(w.hops, at, b)
		default:
			w.redo(b)
		}
	}
}

// redo gives up what has become of a batch and offers its root again.
func (w *world) redo(b *batch) {
	switch b.state {
	case captured:
		w.hops = slices.DeleteFunc(w.hops, func(x *batch) bool { return x == b })
	case packed:
		w.ready.remove(b)
	}
	if b.state != copying { // the packer lets its slot go when it finds the captures gone
		b.packed.release(b)
	}
	b.packed = use{}
	b.capture.release(b)
	b.attempt++
	if b.open {
		b.open = false
		w.buckets[b.bucket].open--
	}
	w.redone++
	w.offer(b)
}

// voidRank begins a new rank epoch without a dead rank: its part of the open window is redone, what still stands in
// a packer's slot from there.
func (w *world) voidRank(dead *instance) {
	w.epoch()
	n := w.lineage.Next
	if int(n) >= len(w.windows) || w.committing {
		return
	}
	for _, b := range w.windows[n] {
		if b.rank != dead || b.state < training {
			continue
		}
		b.rank = nil
		if b.state == training && b.packed.of != nil {
			b.state = packed
			b.attempt++
			w.redone++
			w.ready.push(w.rule.readyLine(w, b), b)
			continue
		}
		w.redo(b)
	}
}
