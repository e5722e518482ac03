package draft

import (
	"context"

	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/worker"
)

// depth is how many batches of the open window one of several ranks has in hand, as long as there are enough: one that is
// computed, one that waits. What is beyond goes to whoever is free first.
const depth = 2

// hold is how many batches of the open window this rank may have in hand now.
func (t *trainer) hold(l *policy.Lineage) int {
	if int(l.Next) >= t.run.Plan.Windows() {
		return depth
	}
	var planned []uint32
	for _, b := range t.run.Plan.Window(int(l.Next)) {
		planned = append(planned, uint32(b.Index))
	}
	return policy.Hold(l.Unclaimed(l.Next, planned), len(l.Members), depth)
}

// hungry waits until this rank has room for another batch of the open window, and hands back what it has beyond that. A hop of a
// later window takes no room, or the one that all ranks wait for could stay behind it.
func (t *trainer) hungry(ctx context.Context) error {
	for t.shared != nil {
		changed, left := t.w.Ledger.Changed(), t.flight.left()
		if err := t.share(ctx); err != nil {
			return err
		}
		n, hold := t.flight.len(), 0
		t.w.Ledger.View(func(l *policy.Lineage) {
			hold = t.hold(l)
			t.park.Take(func(r schema.Hop) bool {
				if t.workable(l, r) {
					n++
				}
				return false
			})
		})
		if n < hold {
			return nil
		}
		select {
		case <-changed:
		case <-left:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// share hands back what this rank holds of the open window and another rank may begin sooner: first what lies on another GPU.
func (t *trainer) share(ctx context.Context) error {
	for t.shared != nil && len(t.w.Ledger.Lineage().Members) > 1 {
		var h worker.Hop
		var ok bool
		t.w.Ledger.View(func(l *policy.Lineage) {
			workable := func(r schema.Hop) bool { return t.workable(l, r) }
			keep := max(0, t.hold(l)-t.flight.len())
			h, ok = t.park.Spare(keep, workable, func(r schema.Hop) bool { return t.views.Near(r.SlotRef) })
		})
		if !ok {
			return nil
		}
		err := t.settle.Do(ctx, func(ctx context.Context) error {
			t.w.Keeper.Drop(h.AckSubject)
			return h.NakDelay(ctx, 0)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
