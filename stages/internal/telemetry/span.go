package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"penstock/schema"
)

// The spans of a batch, in the order of the flow. Queue and slot wait occur at more than one hop.
const (
	Build       = "build"       // batch: from the opening of its window to the broker's confirmation
	Queue       = "queue"       // from publish to the start of work
	CreditWait  = "credit wait" // the part of the queue in which the bucket's credit was used up
	SlotWait    = "slot wait"   // the part of the queue in which no slot was free
	Forward     = "forward"     // target: the frozen model, until its captures are published
	Pack        = "pack"        // pack: until the features are published
	Copy        = "copy"        // of features, into a packer's slot
	Train       = "train"       // draft: forward and backward of the drafter
	Commit      = "commit"      // from the gradient until its window has committed
	Acknowledge = "acknowledge" // of the root
	Step        = "step"        // a trace of its own, linked to the batches in it
)

// Of is what a span is about.
type Of struct {
	schema.Batch
	Tokens uint32
	Slot   *schema.SlotRef // nil for none
	// Subject that a message was sent on or came from, and what was done with it: send, process or settle.
	Subject, Operation string
	Seq                uint64 // of the message in its stream, 0 if not known
	Redelivered        bool
}

// Span is one stretch of work on a batch.
type Span struct {
	t     *Tracer
	otel  trace.Span
	entry Entry
}

// Start begins a span at a time, as a child of the one in ctx.
func (t *Tracer) Start(ctx context.Context, name string, at time.Time, of Of) (context.Context, *Span) {
	s := &Span{t: t, entry: Entry{
		Name: name, Gen: of.Gen, Window: of.Window, Batch: of.Index, Bucket: of.Bucket, Tokens: of.Tokens, Start: at.UnixNano(),
	}}
	if t.provider == nil {
		return ctx, s
	}
	ctx, s.otel = t.tracer.Start(ctx, name, trace.WithTimestamp(at), trace.WithSpanKind(kind(of.Operation)),
		trace.WithAttributes(t.attributes(of)...))
	return ctx, s
}

// End ends the span now. A failure is recorded in it.
func (s *Span) End(err error) { s.EndAt(time.Now(), err) }

// EndAt ends the span at a time.
func (s *Span) EndAt(at time.Time, err error) {
	s.entry.End = max(s.entry.Start, at.UnixNano())
	if err != nil {
		s.entry.Error = err.Error()
	}
	s.t.recent.add(s.entry)
	if s.otel == nil {
		return
	}
	failed(s.otel, at, err)
	s.otel.End(trace.WithTimestamp(time.Unix(0, s.entry.End)))
}

// Wait is a part of a queue's time: it began at Since and lasted until work started. A zero Since says that there was
// no such wait.
type Wait struct {
	Name  string
	Since time.Time
}

// Queued records the time from when a message was stored until now, and the waits in it.
func (t *Tracer) Queued(ctx context.Context, of Of, stored time.Time, waits ...Wait) {
	now := time.Now()
	ctx, q := t.Start(ctx, Queue, stored, of)
	of.Operation = ""
	for _, w := range waits {
		since := w.Since
		switch {
		case since.IsZero():
			since = now
		case since.Before(stored):
			since = stored
		}
		_, s := t.Start(ctx, w.Name, since, of)
		s.EndAt(now, nil)
	}
	q.EndAt(now, nil)
}

// Stepped records an optimizer step and links it to the batches in it, which are given by their contexts.
func (t *Tracer) Stepped(ctx context.Context, window uint32, began time.Time, batches []context.Context, err error) {
	end := time.Now()
	e := Entry{Name: Step, Window: window, Start: began.UnixNano(), End: end.UnixNano()}
	if err != nil {
		e.Error = err.Error()
	}
	t.recent.add(e)
	if t.provider == nil {
		return
	}
	var links []trace.Link
	for _, b := range batches {
		if c := trace.SpanContextFromContext(b); c.IsValid() {
			links = append(links, trace.Link{SpanContext: c})
		}
	}
	_, s := t.tracer.Start(ctx, Step, trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("penstock.window", int(window)), attribute.Int("penstock.batches", len(batches)),
			attribute.String("penstock.device", t.process.Device)))
	failed(s, end, err)
	s.End(trace.WithTimestamp(end))
}

// failed records an error, if there is one, in a span.
func failed(s trace.Span, at time.Time, err error) {
	if err == nil {
		return
	}
	s.RecordError(err, trace.WithTimestamp(at))
	s.SetAttributes(semconv.ErrorType(err))
	s.SetStatus(codes.Error, err.Error())
}

func (t *Tracer) attributes(of Of) []attribute.KeyValue {
	kv := make([]attribute.KeyValue, 0, 18)
	kv = append(kv,
		attribute.Int("penstock.generation", int(of.Gen)), attribute.Int("penstock.epoch", int(of.Epoch)),
		attribute.Int("penstock.window", int(of.Window)), attribute.Int("penstock.batch", int(of.Index)),
		attribute.String("penstock.bucket", of.Bucket), attribute.Int("penstock.tokens", int(of.Tokens)),
		attribute.String("penstock.device", t.process.Device),
	)
	if of.Slot != nil {
		kv = append(kv, attribute.String("penstock.pool", of.Slot.Pool), attribute.Int("penstock.slot", int(of.Slot.Slot)))
	}
	if of.Operation == "" {
		return kv
	}
	kv = append(kv, semconv.MessagingSystemKey.String("nats"), semconv.MessagingDestinationName(of.Subject), semconv.MessagingOperationName(of.Operation))
	switch of.Operation {
	case "send":
		kv = append(kv, semconv.MessagingOperationTypeSend)
	case "settle":
		kv = append(kv, semconv.MessagingOperationTypeSettle)
	default:
		kv = append(kv, semconv.MessagingOperationTypeProcess, attribute.Bool("penstock.redelivered", of.Redelivered))
	}
	if of.Seq > 0 {
		kv = append(kv, attribute.Int64("messaging.nats.stream.sequence", int64(of.Seq)))
	}
	return kv
}

func kind(operation string) trace.SpanKind {
	switch operation {
	case "send":
		return trace.SpanKindProducer
	case "process":
		return trace.SpanKindConsumer
	case "settle":
		return trace.SpanKindClient
	}
	return trace.SpanKindInternal
}
