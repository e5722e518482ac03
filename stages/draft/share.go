package draft

import (
	"context"

	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/worker"
)

// depth is how many batches of the open window one of several ranks has in hand: one that is computed, one that waits.
// What is beyond goes to whoever is free first.
const depth = 2

// hungry waits until this rank has room for another batch of the open window. A hop of a later window takes no room, or
// the one that all ranks wait for could stay behind it.
func (t *trainer) hungry(ctx context.Context) error {
	for t.shared != nil {
		changed, left := t.w.Ledger.Changed(), t.flight.left()
		n := t.flight.len()
		t.w.Ledger.View(func(l *policy.Lineage) {
			t.park.Take(func(r schema.Hop) bool {
				if t.workable(l, r) {
					n++
				}
				return false
			})
		})
		if n < depth {
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

// share hands back what this rank holds of a window that has just opened and another rank may begin sooner: first what lies on
// another GPU.
func (t *trainer) share(ctx context.Context) error {
	for t.shared != nil && len(t.w.Ledger.Lineage().Members) > 1 {
		var h worker.Hop
		var ok bool
		t.w.Ledger.View(func(l *policy.Lineage) {
			workable := func(r schema.Hop) bool { return t.workable(l, r) }
			h, ok = t.park.Spare(depth, workable, func(r schema.Hop) bool { return t.views.Near(r.SlotRef) })
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
