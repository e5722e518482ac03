package pack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
	"penstock/stages/internal/model"
	"penstock/stages/internal/telemetry"
	"penstock/stages/internal/worker"
)

// errVoid drops a hop that means nothing any more: its window has committed, its batch is dead, or its slot has been
// taken for something else.
var errVoid = errors.New("hop is void")

// errNoRoom puts a hop back: no slot may be taken for it now.
var errNoRoom = errors.New("no slot for the hop now")

// badFeatures is what a batch is recomputed for, and rejected the second time.
type badFeatures struct{ reason string }

func (b *badFeatures) Error() string { return "bad features: " + b.reason }

// packed is a batch in an own slot, to be published in its trace.
type packed struct {
	schema.Hop
	trace context.Context
}

// pack copies the captures of a hop into an own slot, tests the copy, and returns the hop to publish.
func (s *session) pack(ctx context.Context, h worker.Hop) (packed, error) {
	r := h.Record
	if h.Redelivered { // what came of the first delivery may be known
		if err := s.w.Ledger.Look(ctx, s.w.Conn, r.Batch); err != nil {
			return packed{}, err
		}
	}
	void, err := s.w.Settled(ctx, r.Batch)
	if err != nil {
		return packed{}, err
	}
	var reserve policy.Reserve
	s.w.Ledger.View(func(l *policy.Lineage) { reserve = policy.ReserveFor(l) })
	if !s.run.Has(r.Batch) {
		s.w.Log.Warn("hop of no planned batch", "batch", r.Index, "window", r.Window, "bucket", r.Bucket, "from", r.From)
		void = true
	}
	if void {
		return packed{}, errVoid
	}
	if err := s.run.Check(r, s.width); err != nil {
		return packed{}, &badFeatures{err.Error()}
	}
	use, ok := s.pool.Take(r.Batch, r.Root, func(free int) bool { return reserve.Admit(r.Window, free) })
	if !ok {
		return packed{}, errNoRoom
	}
	of := worker.SpanOfHop(h)
	of.Slot = &use.Ref
	traced := s.w.Trace.Continue(ctx, h.Header)
	s.w.Trace.Queued(traced, of, time.Unix(0, r.Sent), telemetry.Wait{Name: telemetry.SlotWait, Since: s.noSlot})
	traced, end := s.w.Timed(traced, telemetry.Pack, of)
	out, err := s.copy(traced, use, r)
	end(voidIsNoError(err))
	if err != nil {
		s.pool.Release(use.Ref)
	}
	return packed{out, traced}, err
}

func voidIsNoError(err error) error {
	if errors.Is(err, errVoid) {
		return nil
	}
	return err
}

// copy puts the planes of the target's slot side by side in an own slot. What it copied counts only if the target's slot
// was in the same use throughout.
func (s *session) copy(ctx context.Context, use worker.Use, r schema.Hop) (schema.Hop, error) {
	rows, taps := int(r.Tokens), len(s.w.Config.Target.Taps)
	dst, err := use.Tensor(rows, s.width)
	if err != nil {
		return schema.Hop{}, err
	}
	var seen kernels.FeatureCheck
	_, copied := s.w.Timed(ctx, telemetry.Copy, telemetry.Of{Batch: r.Batch, Tokens: r.Tokens, Slot: &use.Ref})
	err = s.views.Read(ctx, r.SlotRef, taps*rows, s.width/taps, func(planes kernels.Tensor) error {
		seen = s.dev.CheckFeatures(planes)
		model.Concat(s.dev, dst, planes)
		return s.dev.Sync()
	})
	copied(err)
	switch {
	case errors.Is(err, worker.ErrGone):
		return schema.Hop{}, errVoid
	case errors.Is(err, mem.ErrForged):
		return schema.Hop{}, &badFeatures{err.Error()}
	case err != nil:
		return schema.Hop{}, err
	}
	if err := judge(seen, r.Checksum); err != nil {
		return schema.Hop{}, err
	}
	s.addNoise(dst, int(r.Index))
	sum := s.dev.CheckFeatures(dst).Checksum
	out := schema.Hop{Batch: r.Batch, SlotRef: use.Ref, Documents: r.Documents, Tokens: r.Tokens, Width: r.Width, Checksum: sum, Root: r.Root, From: s.w.Instance}
	return out, s.dev.Sync()
}

// addNoise adds the noise that the configuration asks for to a batch's features. It is drawn on the host, whatever the
// device, so that it is the same on each.
func (s *session) addNoise(feats kernels.Tensor, batch int) {
	if s.noise == nil {
		return
	}
	drawn, there := s.noise.drawn[:feats.Len()], s.noise.there.RowRange(0, feats.Rows)
	s.run.Noise(drawn, s.width, s.run.Plan.Batch(batch), s.w.Config.Pack.Noise)
	s.dev.Upload(there, drawn)
	s.dev.Add(feats, there)
}

// judge refuses features that cannot be what a model computed.
func judge(seen kernels.FeatureCheck, sum uint64) error {
	switch {
	case !seen.Finite:
		return &badFeatures{"not finite"}
	case seen.Zero:
		return &badFeatures{"all zero"}
	case seen.Constant:
		return &badFeatures{"every row is the same"}
	case seen.Checksum != sum:
		return &badFeatures{fmt.Sprintf("checksum %016x, the target wrote %016x", seen.Checksum, sum)}
	}
	return nil
}
