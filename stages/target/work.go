package target

import (
	"context"
	"errors"
	"fmt"
	"time"

	"penstock/broker"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/telemetry"
	"penstock/stages/internal/worker"
)

// forwarded is a forward that was given to the device.
type forwarded struct {
	root  broker.Delivery[schema.Root]
	plan  plan.BatchPlan
	use   worker.Use
	wait  func() (kernels.FeatureCheck, error) // until the captures are complete
	began time.Time
	trace context.Context // of the batch
	end   func(error)     // of the forward's span
}

// finish waits for the forward and returns the checksum of its captures.
func (f *forwarded) finish(s *session) (uint64, error) {
	seen, err := f.wait()
	s.flying.End()
	f.end(err)
	if err != nil {
		return 0, fmt.Errorf("forward batch %d: %w", f.plan.Index, err)
	}
	return seen.Checksum, nil
}

// work gives the forward of a batch into its slot to the device.
func (s *session) work(ctx context.Context, d *broker.Delivery[schema.Root], p plan.BatchPlan, use worker.Use, waits []telemetry.Wait) error {
	of := worker.SpanOfRoot(d)
	of.Slot = &use.Ref
	traced := s.w.Trace.Continue(ctx, d.Header)
	s.w.Trace.Queued(traced, of, d.Stored, waits...)
	f := forwarded{root: *d, plan: p, use: use, began: time.Now()}
	f.trace, f.end = s.w.Timed(traced, telemetry.Forward, of)
	s.flying.Begin()
	f.wait = s.forward(p, use)
	select {
	case s.started <- f:
		return nil
	case <-ctx.Done():
		_, err := f.finish(s)
		return errors.Join(err, context.Cause(ctx))
	}
}

// forward has the captures of a batch written into the slot, a plane a tap, and tested. What it returns waits for that.
func (s *session) forward(p plan.BatchPlan, use worker.Use) func() (kernels.FeatureCheck, error) {
	packed := s.run.Load(p)
	rows, taps := len(packed.IDs), len(s.w.Config.Target.Taps)
	out, err := use.Tensor(taps*rows, s.width/taps)
	if err == nil {
		err = s.from.captures(p, packed, out)
	}
	if err != nil {
		return func() (kernels.FeatureCheck, error) { return kernels.FeatureCheck{}, err }
	}
	return kernels.CheckLater(s.dev, out)
}

// complete has each forward handed on once the device has completed it, while the device may be at work on the next.
func (s *session) complete(ctx context.Context) error {
	var before time.Time // the forward before was complete
	for {
		select {
		case f, ok := <-s.started:
			if !ok {
				return nil
			}
			sum, err := f.finish(s)
			if err != nil {
				return err
			}
			if f.began.Before(before) {
				f.began = before
			}
			before = time.Now()
			s.costs.Observe(f.plan.Bucket, s.run.Work(f.plan), before.Sub(f.began))
			s.w.Status.Took(telemetry.Forward, 1, before.Sub(f.began))
			if err := s.settle.Do(ctx, func(ctx context.Context) error { return s.publish(ctx, f, sum) }); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
