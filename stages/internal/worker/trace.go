package worker

import (
	"context"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/telemetry"
)

// The spans of records, with what is known of them.

// SpanOfRoot describes a root that was delivered.
func SpanOfRoot(d *broker.Delivery[schema.Root]) telemetry.Of {
	return telemetry.Of{Batch: d.Record.Batch, Tokens: d.Record.Tokens, Subject: d.Subject, Operation: telemetry.Processed, Seq: d.Seq, Redelivered: d.Redelivered}
}

// SpanOfHop describes a hop that was delivered.
func SpanOfHop(h Hop) telemetry.Of {
	return telemetry.Of{Batch: h.Record.Batch, Tokens: h.Record.Tokens, Slot: &h.Record.SlotRef, Subject: h.Subject, Operation: telemetry.Processed,
		Seq: h.Seq, Redelivered: h.Redelivered}
}

// Quiet is of without its message: a stretch of work inside the work on a record.
func Quiet(of telemetry.Of) telemetry.Of {
	of.Subject, of.Operation, of.Seq, of.Redelivered = "", nil, 0, false
	return of
}

// Timed begins a span now; end ends it and counts its time as work of that name.
func (w *Worker) Timed(ctx context.Context, name string, of telemetry.Of) (context.Context, func(error)) {
	began := time.Now()
	ctx, s := w.Trace.Start(ctx, name, began, of)
	return ctx, func(err error) {
		s.End(err)
		took := time.Since(began)
		w.Metrics.Work(name, took.Seconds())
		w.Status.Took(name, 1, took)
	}
}
