package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/schema/hf"
)

// HopID names a hop for the stream's memory of duplicates: one use of one slot is one message.
func HopID(r schema.SlotRef) string {
	return fmt.Sprintf("%x-%d-%d", r.Incarnation, r.Slot, r.Generation)
}

// Now is the time as records carry it, Unix nanoseconds.
func (w *Worker) Now() int64 { return time.Now().UnixNano() }

// Width is the number of values in a row of captures.
func (w *Worker) Width() (int, error) {
	t, err := hf.OpenTarget(w.Config.Target.Dir)
	if err != nil {
		return 0, err
	}
	return len(w.Config.Target.Taps) * t.HiddenSize, t.Close()
}

// Release gives a slot back to its owner; it returns once the broker has stored that.
func (w *Worker) Release(ctx context.Context, r schema.SlotRef) error {
	return broker.NewPublisher(w.Conn, broker.Rel).Publish(ctx, r.Pool, schema.Release{SlotRef: r, By: w.Instance}, "rel-"+HopID(r))
}

// Reject asks for a batch's features to be computed again, or, the second time, declares the batch dead. Its root is
// handed back, or acknowledged.
func (w *Worker) Reject(ctx context.Context, h schema.Hop, reason string) error {
	if err := w.Ledger.Study(ctx, w.Conn, broker.LedgerBatch(h.Gen, h.Window, h.Index)); err != nil { // how often it was bad counts
		return err
	}
	for {
		var verdict policy.Verdict
		var after uint64
		w.Ledger.View(func(l *policy.Lineage) { verdict, after = l.Judge(h.Batch) })
		if verdict == policy.Ignore {
			return nil
		}
		var rec schema.Record = schema.Suspect{Batch: h.Batch, Reason: reason, From: h.From}
		settle := func() error {
			return w.hint(ctx, func(ctx context.Context) error { return w.Conn.NakRoot(ctx, h.Root, 0) })
		}
		if verdict == policy.Declare {
			rec = schema.Dead{Batch: h.Batch, Reason: reason}
			settle = func() error {
				return w.hint(ctx, func(ctx context.Context) error { return w.Conn.AckRoot(ctx, h.Root) })
			}
		}
		seq, err := w.Conn.Ledger().Append(ctx, broker.LedgerBatch(h.Gen, h.Window, h.Index), rec, after)
		var lost *broker.LostError
		if errors.As(err, &lost) {
			w.Ledger.Apply(lost.Winner)
			continue
		}
		if err != nil {
			return err
		}
		w.Ledger.Apply(broker.Entry{Seq: seq, Record: rec})
		w.Metrics.Rejected(rec.Kind())
		w.Log.Warn("bad features", "batch", h.Index, "window", h.Window, "from", h.From, "reason", reason, "ledger", rec.Kind())
		return settle()
	}
}

// hint settles a root that a record names. If the root is not what the record says, the server does not answer, and that
// is no failure: a root that is not settled comes again, and the ledger says what becomes of it then.
func (w *Worker) hint(ctx context.Context, settle func(context.Context) error) error {
	short, cancel := context.WithTimeout(ctx, min(w.AckWait, time.Second))
	defer cancel()
	if err := settle(short); err != nil && short.Err() == nil && !errors.Is(err, broker.ErrGone) {
		return err
	}
	return context.Cause(ctx)
}

// Always is a readiness that never waits.
func Always(context.Context) error { return nil }

// CloseSource hands back what a source still holds, even if ctx is over; what is not handed back comes back by itself.
func CloseSource(ctx context.Context, s *broker.Source[schema.Hop]) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.Close(ctx)
}

// WaitEither returns when changed closes or after d.
func WaitEither(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
