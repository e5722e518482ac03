package pack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/account"
	"penstock/stages/internal/telemetry"
	"penstock/stages/internal/worker"
)

// errDone ends the goroutines of a session whose run is complete.
var errDone = errors.New("all windows have committed")

// serve receives hops on one goroutine and packs them on another.
func (s *session) serve(ctx context.Context) error {
	s.pool.FreeAll()
	defer s.park.Leave()
	src, err := s.w.Conn.Hops(ctx, broker.Pack, s.gen)
	if err != nil {
		return err
	}
	defer worker.CloseSource(ctx, src)
	s.w.Status.Running()
	g, ctx := errgroup.WithContext(ctx)
	s.settle.Start(ctx, g)
	g.Go(func() error { return s.again.Run(ctx) })
	g.Go(func() error { return s.park.Receive(ctx, src, s.pool.WaitFree) })
	g.Go(func() error { return s.work(ctx) })
	if err := g.Wait(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// cost is the drafter's work on a hop's batch: drafters should have what is most expensive first.
func (s *session) cost(h schema.Hop) float64 {
	if !s.run.Has(h.Batch) {
		return 0
	}
	return s.drafting.Of(s.run.Work(s.run.Plan.Batch(int(h.Index))))
}

// work packs a parked hop that may take a slot, of the oldest window and the most expensive one, again and again.
func (s *session) work(ctx context.Context) error {
	s.w.Book.Enter(account.NoInput)
	idle := time.Now() // since when there is nothing to pack; zero: there is
	for {
		changed, freed := s.w.Ledger.Changed(), s.pool.Freed()
		if gen, next := s.w.Ledger.Front(); gen == s.gen && int(next) >= s.run.Plan.Windows() {
			return errDone
		}
		h, ok := s.park.Choose(policy.Order{Deterministic: s.w.Config.Deterministic}, s.cost, s.workable())
		if ok {
			s.w.Status.Handoff.Add(h.Record.Sent)
			if sent := time.Unix(0, h.Record.Sent); !idle.IsZero() && sent.After(idle) {
				s.w.Status.Took(worker.Hand, 1, time.Since(sent))
			}
			idle = time.Time{}
			s.w.Book.Enter(account.Copy)
			if err := s.handle(ctx, h); err != nil {
				return err
			}
			s.w.Book.Enter(account.NoInput)
			s.noSlot = time.Time{}
			continue
		}
		if s.park.Len() > 0 {
			idle = time.Time{}
			s.w.Book.Enter(account.NoSlot)
			if s.noSlot.IsZero() {
				s.noSlot = time.Now()
			}
		} else {
			if idle.IsZero() {
				idle = time.Now()
			}
			s.w.Book.Enter(account.NoInput)
			s.noSlot = time.Time{}
		}
		select {
		case <-s.park.Came():
		case <-changed:
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// workable says which hops can be settled now: those that are void, and those that may take a slot.
func (s *session) workable() func(schema.Hop) bool {
	free := s.pool.Free()
	var lineage policy.Lineage
	var reserve policy.Reserve
	s.w.Ledger.View(func(l *policy.Lineage) {
		lineage = *l
		reserve = policy.ReserveFor(l)
	})
	return func(h schema.Hop) bool {
		return lineage.Stale(h.Batch) || reserve.Admit(h.Window, free)
	}
}

// handle packs one hop, or drops it, and has it settled.
func (s *session) handle(ctx context.Context, h worker.Hop) error {
	out, err := s.pack(ctx, h)
	var bad *badFeatures
	switch {
	case errors.Is(err, errNoRoom):
		s.park.Return(h)
		return nil
	case err != nil && !errors.Is(err, errVoid) && !errors.As(err, &bad):
		return fmt.Errorf("pack batch %d: %w", h.Record.Index, err)
	}
	return s.settle.Do(ctx, func(ctx context.Context) error {
		switch {
		case bad != nil:
			if err := s.w.Reject(ctx, h.Record, bad.reason); err != nil {
				return err
			}
		case err == nil:
			if err := s.publish(ctx, out); err != nil {
				return err
			}
		}
		return s.close(ctx, h)
	})
}

// publish hands the packed batch on. The message id names this use of the slot.
func (s *session) publish(ctx context.Context, out packed) error {
	out.Sent = s.w.Now()
	if err := s.pub.Publish(telemetry.Carry(ctx, out.trace), out.Bucket, out.Hop, worker.HopID(out.SlotRef)); err != nil {
		return fmt.Errorf("hand on batch %d: %w", out.Index, err)
	}
	s.again.HandedOn(out.Hop)
	s.w.Status.Batches.Add(1)
	s.w.Status.Tokens.Add(uint64(out.Tokens))
	return nil
}

// close settles a hop after the next one is stored: first the target's slot is released, then the hop acknowledged.
func (s *session) close(ctx context.Context, h worker.Hop) error {
	if err := s.w.Release(ctx, h.Record.SlotRef); err != nil {
		return err
	}
	return s.park.Done(h)
}
