package telemetry

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// Spans are written as OTLP's protobuf at their end, straight from what is known of them. The attributes, maps and messages
// that a span passes through otherwise took most of what tracing cost: BenchmarkTraceOfABatch measures it.

// Field numbers of OTLP's messages.
const (
	spansOfScope = 2

	spanTrace, spanID, spanState, spanParent, spanName, spanKind       = 1, 2, 3, 4, 5, 6
	spanStart, spanEnd, spanAttribute, spanEvent, spanLink, spanStatus = 7, 8, 9, 11, 13, 15
	spanFlags                                                          = 16
	eventTime, eventName, eventAttribute                               = 1, 2, 3
	linkTrace, linkID, linkFlags                                       = 1, 2, 6
	statusMessage, statusCode                                          = 2, 3
	pairKey, pairValue                                                 = 1, 2
	valueText, valueFlag, valueNumber                                  = 1, 2, 3
)

// wire is the fields of a protobuf message, one behind the other.
type wire []byte

func (w wire) bytes(field protowire.Number, v []byte) wire {
	return protowire.AppendBytes(protowire.AppendTag(w, field, protowire.BytesType), v)
}

func (w wire) string(field protowire.Number, v string) wire {
	return protowire.AppendString(protowire.AppendTag(w, field, protowire.BytesType), valid(v))
}

// valid is v as protobuf's strings must be: one that is not would have the whole delivery refused.
func valid(v string) string {
	if utf8.ValidString(v) {
		return v
	}
	return strings.ToValidUTF8(v, "\uFFFD")
}

func (w wire) varint(field protowire.Number, v uint64) wire {
	return protowire.AppendVarint(protowire.AppendTag(w, field, protowire.VarintType), v)
}

func (w wire) fixed64(field protowire.Number, v uint64) wire {
	return protowire.AppendFixed64(protowire.AppendTag(w, field, protowire.Fixed64Type), v)
}

func (w wire) fixed32(field protowire.Number, v uint32) wire {
	return protowire.AppendFixed32(protowire.AppendTag(w, field, protowire.Fixed32Type), v)
}

// text, number and flag add an attribute.
func (w wire) text(field protowire.Number, key attribute.Key, v string) wire {
	v = valid(v)
	w = w.pair(field, key, 1+protowire.SizeBytes(len(v)))
	return protowire.AppendString(protowire.AppendTag(w, valueText, protowire.BytesType), v)
}

func (w wire) number(field protowire.Number, key attribute.Key, v uint64) wire {
	return w.pair(field, key, 1+protowire.SizeVarint(v)).varint(valueNumber, v)
}

func (w wire) flag(field protowire.Number, key attribute.Key, v bool) wire {
	return w.pair(field, key, 2).varint(valueFlag, protowire.EncodeBool(v))
}

// pair begins an attribute whose value takes size bytes, which follow.
func (w wire) pair(field protowire.Number, key attribute.Key, size int) wire {
	w = protowire.AppendTag(w, field, protowire.BytesType)
	w = protowire.AppendVarint(w, uint64(1+protowire.SizeBytes(len(key))+1+protowire.SizeBytes(size)))
	w = protowire.AppendString(protowire.AppendTag(w, pairKey, protowire.BytesType), string(key))
	return protowire.AppendVarint(protowire.AppendTag(w, pairValue, protowire.BytesType), uint64(size))
}

// span adds the fields of a span, with the attributes that every span of the process has.
func (w wire) span(s *Span, everywhere wire) wire {
	id, self, parent := s.context.TraceID(), s.context.SpanID(), s.parent.SpanID()
	w = w.bytes(spanTrace, id[:]).bytes(spanID, self[:])
	if state := s.context.TraceState(); state.Len() > 0 {
		w = w.string(spanState, state.String())
	}
	if parent.IsValid() {
		w = w.bytes(spanParent, parent[:])
	}
	kind := otlp.Span_SPAN_KIND_INTERNAL
	if s.of.Operation != nil {
		kind = s.of.Operation.kind
	}
	w = w.string(spanName, s.name).varint(spanKind, uint64(kind))
	w = w.fixed64(spanStart, uint64(s.start)).fixed64(spanEnd, uint64(s.end))
	if s.name == Step {
		w = w.number(spanAttribute, "penstock.window", uint64(s.of.Window)).number(spanAttribute, "penstock.batches", uint64(s.batches))
	} else {
		w = w.about(&s.of)
	}
	w = append(w, everywhere...)
	for _, l := range s.links {
		w = w.bytes(spanLink, wire(nil).link(l))
	}
	if s.err != nil {
		w = w.failure(s)
	}
	return w.fixed32(spanFlags, flags(s.context, s.parent))
}

// about adds the attributes that say what a span is about.
func (w wire) about(of *Of) wire {
	w = w.number(spanAttribute, "penstock.generation", uint64(of.Gen)).number(spanAttribute, "penstock.epoch", uint64(of.Epoch)).
		number(spanAttribute, "penstock.window", uint64(of.Window)).number(spanAttribute, "penstock.batch", uint64(of.Index)).
		text(spanAttribute, "penstock.bucket", of.Bucket).number(spanAttribute, "penstock.tokens", uint64(of.Tokens))
	if of.Slot != nil {
		w = w.text(spanAttribute, "penstock.pool", of.Slot.Pool).number(spanAttribute, "penstock.slot", uint64(of.Slot.Slot))
	}
	if of.Operation == nil {
		return w
	}
	w = append(w, of.Operation.attributes...).text(spanAttribute, semconv.MessagingDestinationNameKey, of.Subject)
	if of.Operation == Processed {
		w = w.flag(spanAttribute, "penstock.redelivered", of.Redelivered)
	}
	if of.Seq > 0 {
		w = w.number(spanAttribute, "messaging.nats.stream.sequence", of.Seq)
	}
	return w
}

// link adds the fields of a link to a span.
func (w wire) link(to trace.SpanContext) wire {
	id, span := to.TraceID(), to.SpanID()
	return w.bytes(linkTrace, id[:]).bytes(linkID, span[:]).fixed32(linkFlags, flags(to, to))
}

// failure adds a span's error: its type, an event and the status.
func (w wire) failure(s *Span) wire {
	what, text := semconv.ErrorType(s.err).Value.AsString(), s.err.Error()
	event := wire(nil).fixed64(eventTime, uint64(s.end)).string(eventName, semconv.ExceptionEventName).
		text(eventAttribute, semconv.ExceptionTypeKey, what).text(eventAttribute, semconv.ExceptionMessageKey, text)
	status := wire(nil).string(statusMessage, text).varint(statusCode, uint64(otlp.Status_STATUS_CODE_ERROR))
	return w.text(spanAttribute, semconv.ErrorTypeKey, what).bytes(spanEvent, event).bytes(spanStatus, status)
}

// flags are those of a span or link: of its own context, and whether the context that it names came from elsewhere.
func flags(own, named trace.SpanContext) uint32 {
	f := uint32(own.TraceFlags()) | uint32(otlp.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if named.IsRemote() {
		f |= uint32(otlp.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return f
}

// Operation is what is done with a span's message.
type Operation struct {
	kind       otlp.Span_SpanKind
	attributes wire
}

var (
	Sent      = newOperation("send", otlp.Span_SPAN_KIND_PRODUCER)
	Processed = newOperation("process", otlp.Span_SPAN_KIND_CONSUMER)
	Settled   = newOperation("settle", otlp.Span_SPAN_KIND_CLIENT)
)

func newOperation(name string, kind otlp.Span_SpanKind) *Operation {
	return &Operation{kind, wire(nil).text(spanAttribute, semconv.MessagingSystemKey, "nats").
		text(spanAttribute, semconv.MessagingOperationNameKey, name).text(spanAttribute, semconv.MessagingOperationTypeKey, name)}
}

// pairs returns attributes as OTLP's messages.
func pairs(set []attribute.KeyValue) []*common.KeyValue {
	out := make([]*common.KeyValue, len(set))
	for i, kv := range set {
		v := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: valid(fmt.Sprint(kv.Value.AsInterface()))}}
		if kv.Value.Type() == attribute.INT64 {
			v.Value = &common.AnyValue_IntValue{IntValue: kv.Value.AsInt64()}
		}
		out[i] = &common.KeyValue{Key: valid(string(kv.Key)), Value: v}
	}
	return out
}
