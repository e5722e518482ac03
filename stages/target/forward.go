package target

import (
	"context"
	"errors"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/account"
	"penstock/stages/internal/telemetry"
	"penstock/stages/internal/worker"
)

const (
	minIdle = 2 * time.Millisecond
	maxIdle = 64 * time.Millisecond
	notYet  = 5 * time.Millisecond // before an inadmissible root is delivered again
	headAge = 10 * time.Second     // a bucket whose head is older goes first within its window
)

// pullAndForward takes a free slot, then the root that the rules choose, and forwards it, until the run is complete.
func (s *session) pullAndForward(ctx context.Context) error {
	heads, err := s.openHeads(ctx)
	if err != nil {
		return err
	}
	defer heads.close(context.WithoutCancel(ctx))
	s.w.Status.Running()
	var noSlot time.Time // since when the next root waits for a slot
	for {
		gen, next := s.w.Ledger.Front()
		if gen == s.gen && int(next) >= s.run.Plan.Windows() {
			return nil
		}
		if s.pool.Free() == 0 {
			s.flying.Wait(account.NoSlot)
			noSlot = time.Now()
			if err := s.pool.WaitFree(ctx); err != nil {
				return err
			}
			continue
		}
		changed := s.w.Ledger.Changed()
		d, err := heads.pull(ctx, next, s.mayTake())
		if errors.Is(err, broker.ErrEmpty) {
			s.flying.Wait(heads.cause())
			noSlot = time.Time{}
			if err := worker.WaitEither(ctx, changed, heads.pause()); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		waits := []telemetry.Wait{{Name: telemetry.CreditWait, Since: heads.held}, {Name: telemetry.SlotWait, Since: noSlot}}
		taken, err := s.take(ctx, d, waits)
		if err != nil {
			return err
		}
		if !taken {
			heads.refuse(d.Record.Batch)
			continue
		}
		heads.settled()
		noSlot = time.Time{}
	}
}

// mayTake says which expected roots could take a slot now.
func (s *session) mayTake() func(policy.Head) bool {
	var reserve policy.Reserve
	s.w.Ledger.View(func(l *policy.Lineage) { reserve = policy.ReserveFor(l) })
	free := s.pool.Free()
	return func(h policy.Head) bool { return reserve.Admit(h.Window, free) }
}

// take works on a root, or settles it if nobody should work on it, and is told what the root waited for. It reports false
// for one that it has handed back.
func (s *session) take(ctx context.Context, d *broker.Delivery[schema.Root], waits []telemetry.Wait) (bool, error) {
	r := d.Record
	if d.Redelivered { // it may have been declared dead, or be left to another target
		if err := s.w.Ledger.Look(ctx, s.w.Conn, r.Batch); err != nil {
			return false, err
		}
	}
	var stale bool
	var status policy.Status
	var reserve policy.Reserve
	s.w.Ledger.View(func(l *policy.Lineage) {
		stale, status = l.Stale(r.Batch), l.Of(r.Window, r.Index)
		reserve = policy.ReserveFor(l)
	})
	if stale || status.State == policy.Dead {
		return true, d.Ack(ctx)
	}
	if leave, err := s.elsewhere(r.Batch, status); leave || err != nil {
		return false, errors.Join(err, d.NakDelay(ctx, notYet))
	}
	p, err := s.run.Batch(r.Batch, r.Documents, r.Tokens)
	if err != nil {
		return true, d.Term(ctx, err.Error())
	}
	use, ok := s.pool.Take(r.Batch, d.AckSubject, func(free int) bool { return reserve.Admit(r.Window, free) })
	if !ok {
		return false, d.NakDelay(ctx, notYet)
	}
	return true, s.work(ctx, d, p, use, waits)
}
