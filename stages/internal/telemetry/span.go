package telemetry

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

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
	// Subject that a message was sent on or came from, and what was done with it; nil for no message.
	Subject     string
	Operation   *Operation
	Seq         uint64 // of the message in its stream, 0 if not known
	Redelivered bool
}

// Span is one stretch of work on a batch.
type Span struct {
	t          *Tracer
	name       string
	of         Of
	slot       schema.SlotRef // what of.Slot points at
	start, end int64          // Unix nanoseconds
	err        error

	context, parent trace.SpanContext   // zero when spans are not exported
	batches         int                 // of a step
	links           []trace.SpanContext // of a step
}

// Start begins a span at a time, as a child of the one in ctx.
func (t *Tracer) Start(ctx context.Context, name string, at time.Time, of Of) (context.Context, *Span) {
	s := &Span{t: t, name: name, of: of, start: at.UnixNano()}
	if of.Slot != nil {
		s.slot = *of.Slot
		s.of.Slot = &s.slot
	}
	if t.out != nil {
		s.parent = trace.SpanContextFromContext(ctx)
		ctx = s.identify(ctx)
	}
	return ctx, s
}

// identify names the span and decides whether it is sampled. It returns ctx with the span in it.
func (s *Span) identify(ctx context.Context) context.Context {
	if s.t.inherit && s.parent.IsValid() {
		var id trace.SpanID
		for !id.IsValid() {
			binary.NativeEndian.PutUint64(id[:], rand.Uint64())
		}
		s.context = s.parent.WithSpanID(id).WithRemote(false)
		return trace.ContextWithSpanContext(ctx, s.context)
	}
	ctx, named := s.t.ids.Start(ctx, s.name)
	s.context = named.SpanContext()
	return ctx
}

// End ends the span now. A failure is recorded in it.
func (s *Span) End(err error) { s.EndAt(time.Now(), err) }

// EndAt ends the span at a time.
func (s *Span) EndAt(at time.Time, err error) {
	s.end, s.err = max(s.start, at.UnixNano()), err
	e := Entry{Name: s.name, Gen: s.of.Gen, Window: s.of.Window, Batch: s.of.Index, Bucket: s.of.Bucket, Tokens: s.of.Tokens, Start: s.start, End: s.end}
	if err != nil {
		e.Error = err.Error()
	}
	s.t.recent.add(e)
	if s.context.IsSampled() {
		s.t.out.add(s)
	}
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
	of.Operation = nil
	for _, w := range waits {
		since := w.Since
		switch {
		case since.IsZero() || !since.Before(now):
			since = now.Add(-time.Nanosecond) // a span that takes no time at all is mended by collectors, with a warning
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
	s := &Span{t: t, name: Step, of: Of{Batch: schema.Batch{Window: window}}, start: began.UnixNano(), batches: len(batches)}
	if t.out != nil {
		s.identify(trace.ContextWithSpanContext(ctx, trace.SpanContext{}))
		for _, b := range batches {
			if c := trace.SpanContextFromContext(b); c.IsValid() {
				s.links = append(s.links, c)
			}
		}
	}
	s.End(err)
}
