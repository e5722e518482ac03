package draft

import (
	"context"
	"strings"
	"time"

	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/worker"
)

// depth is how many batches of the open window one of several ranks has in hand, as long as there are enough: one that is
// computed, one that waits. What is beyond goes to whoever is free first.
const depth = 2

// hold is how many batches of the open window this rank may have in hand now.
func (t *trainer) hold(l *policy.Lineage) int {
	ids := t.planned(l)
	if ids == nil {
		return depth
	}
	return policy.Hold(l.Unclaimed(l.Next, ids), len(l.Members), depth)
}

// room is how many batches of the open window this rank may begin beside those that it works on, and how many lie parked for that.
func (t *trainer) room() (room, parked int) {
	t.w.Ledger.View(func(l *policy.Lineage) {
		room = t.hold(l) - t.flight.len()
		t.park.Take(func(r schema.Hop) bool {
			if t.workable(l, r) {
				parked++
			}
			return false
		})
	})
	return room, parked
}

// hungry waits until this rank has room for another batch of the open window and does not leave it to others, and hands back what
// it has beyond that. A hop of a later window takes no room, or the one that all ranks wait for could stay behind it.
func (t *trainer) hungry(ctx context.Context) error {
	again := time.NewTimer(0)
	defer again.Stop()
	for t.shared != nil {
		changed, left := t.w.Ledger.Changed(), t.flight.left()
		takes, wait, err := t.takes(ctx)
		if err == nil {
			err = t.handBack(ctx, takes)
		}
		if err != nil {
			return err
		}
		if room, parked := t.room(); takes && parked < room {
			return nil
		}
		var later <-chan time.Time
		if !takes {
			again.Reset(wait)
			later = again.C
		}
		select {
		case <-changed:
		case <-left:
		case <-t.handed:
		case <-later:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// mayBegin says whether this rank may begin a batch of the open window that is parked here. Those that it leaves to others it
// hands back.
func (t *trainer) mayBegin(ctx context.Context) (bool, error) {
	if t.shared == nil {
		return true, nil
	}
	if room, parked := t.room(); room <= 0 || parked == 0 {
		return false, nil
	}
	takes, _, err := t.takes(ctx)
	if err == nil && !takes {
		err = t.handBack(ctx, false)
	}
	return takes, err
}

// share hands back what this rank holds of the open window and another rank may begin sooner.
func (t *trainer) share(ctx context.Context) error {
	takes, _, err := t.takes(ctx)
	if err != nil {
		return err
	}
	return t.handBack(ctx, takes)
}

// askAgain wakes who waits in hungry with enough at hand, because some of that is given away or thrown away, which the ledger does
// not tell. Whether this rank takes any, two that ask at the same time may hear differently, so that one gives away what the other
// waits with.
func (t *trainer) askAgain() {
	select {
	case t.handed <- struct{}{}:
	default:
	}
}

// handBack hands back what this rank holds of the open window beyond its room, or all of it unless it takes any: first what lies
// on another GPU.
func (t *trainer) handBack(ctx context.Context, takes bool) error {
	for t.shared != nil && len(t.w.Ledger.Lineage().Members) > 1 {
		var h worker.Hop
		var ok bool
		t.w.Ledger.View(func(l *policy.Lineage) {
			keep := 0
			if takes {
				keep = max(0, t.hold(l)-t.flight.len())
			}
			workable := func(r schema.Hop) bool { return t.workable(l, r) }
			h, ok = t.park.Spare(keep, workable, func(r schema.Hop) bool { return t.views.Near(r.SlotRef) })
		})
		if !ok {
			return nil
		}
		t.askAgain()
		err := t.settle.Do(ctx, func(ctx context.Context) error {
			t.w.Keeper.Drop(h.AckSubject)
			err := h.NakDelay(ctx, 0)
			if err == nil {
				t.w.Metrics.HandedBack(strings.TrimSuffix(h.Subject, "."+h.Record.Bucket))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
