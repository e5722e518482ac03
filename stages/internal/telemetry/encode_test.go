package telemetry

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"penstock/schema"
)

// official has OpenTelemetry's SDK and exporter make the span that s shall be, and gives s its identity.
func official(t *testing.T, s *Span, kind trace.SpanKind, attributes ...attribute.KeyValue) *otlp.Span {
	t.Helper()
	var c collector
	exporter, err := otlptrace.New(t.Context(), &c)
	if err != nil {
		t.Fatal(err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	options := []trace.SpanStartOption{trace.WithTimestamp(time.Unix(0, s.start)), trace.WithSpanKind(kind), trace.WithAttributes(attributes...)}
	for _, l := range s.links {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: l}))
	}
	_, span := p.Tracer(scopeName).Start(trace.ContextWithSpanContext(t.Context(), s.parent), s.name, options...)
	if s.err != nil {
		span.RecordError(s.err, trace.WithTimestamp(time.Unix(0, s.end)))
		span.SetAttributes(semconv.ErrorType(s.err))
		span.SetStatus(codes.Error, s.err.Error())
	}
	span.End(trace.WithTimestamp(time.Unix(0, s.end)))
	s.context = span.SpanContext()
	if len(c.spans) != 1 {
		t.Fatalf("%d spans", len(c.spans))
	}
	return c.spans[0]
}

// TestSpansAreEncodedAsTheSDKDoes holds spans of every form, field by field, against what OpenTelemetry's exporter sends.
func TestSpansAreEncodedAsTheSDKDoes(t *testing.T) {
	state, err := trace.ParseTraceState("vendor=x")
	if err != nil {
		t.Fatal(err)
	}
	local := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3, 4}, TraceFlags: trace.FlagsSampled, TraceState: state})
	remote := local.WithRemote(true).WithTraceState(trace.TraceState{})
	batch := Of{Batch: schema.Batch{Gen: 2, Epoch: 1, Window: 300, Index: 70_000, Bucket: "b96"}, Tokens: 1 << 31}
	of := []attribute.KeyValue{attribute.Int("penstock.generation", 2), attribute.Int("penstock.epoch", 1), attribute.Int("penstock.window", 300),
		attribute.Int("penstock.batch", 70_000), attribute.String("penstock.bucket", "b96"), attribute.Int("penstock.tokens", 1<<31),
		attribute.String("penstock.device", "cpu")}
	message := func(operation string, more ...attribute.KeyValue) []attribute.KeyValue {
		return slices.Concat(of, more, []attribute.KeyValue{attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", "ps.fwd.b96"),
			attribute.String("messaging.operation.name", operation), attribute.String("messaging.operation.type", operation)})
	}
	with := func(operation *Operation, slot *schema.SlotRef, seq uint64, redelivered bool) Of {
		o := batch
		o.Subject, o.Operation, o.Slot, o.Seq, o.Redelivered = "ps.fwd.b96", operation, slot, seq, redelivered
		return o
	}
	for _, c := range []struct {
		name       string
		span       Span
		kind       trace.SpanKind
		attributes []attribute.KeyValue
	}{
		{"a root", Span{name: Build, of: with(Sent, nil, 0, false)}, trace.SpanKindProducer, message("send")},
		{"from another process", Span{name: Forward, of: with(Processed, &schema.SlotRef{Pool: "target-1"}, 1<<40, true), parent: remote}, trace.SpanKindConsumer,
			message("process", attribute.String("penstock.pool", "target-1"), attribute.Int("penstock.slot", 0),
				attribute.Bool("penstock.redelivered", true), attribute.Int64("messaging.nats.stream.sequence", 1<<40))},
		{"from this process", Span{name: Acknowledge, of: with(Settled, nil, 0, false), parent: local}, trace.SpanKindClient, message("settle")},
		{"without a message", Span{name: Commit, of: batch, parent: remote}, trace.SpanKindInternal, of},
		{"a failure", Span{name: Pack, of: batch, parent: remote, err: &fs.PathError{Op: "map", Path: "slab", Err: errors.New("gone")}}, trace.SpanKindInternal, of},
		{"a step", Span{name: Step, of: Of{Batch: schema.Batch{Window: 9}}, batches: 2, links: []trace.SpanContext{remote, local}}, trace.SpanKindInternal,
			[]attribute.KeyValue{attribute.Int("penstock.window", 9), attribute.Int("penstock.batches", 2), attribute.String("penstock.device", "cpu")}},
	} {
		s := &c.span
		s.start = time.Now().UnixNano()
		s.end = s.start + 5_000_000
		want, got := official(t, s, c.kind, c.attributes...), &otlp.Span{}
		if err := proto.Unmarshal(wire(nil).span(s, wire(nil).text(spanAttribute, "penstock.device", "cpu")), got); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got.Status == nil {
			got.Status = &otlp.Status{} // unset is a status that is not there
		}
		for _, s := range []*otlp.Span{want, got} {
			slices.SortFunc(s.Attributes, func(a, b *common.KeyValue) int { return strings.Compare(a.Key, b.Key) })
		}
		if !proto.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, want)
		}
	}
}

// TestTextIsAlwaysUTF8: an error's text may be anything, and a string that protobuf does not allow would take the spans
// beside it along.
func TestTextIsAlwaysUTF8(t *testing.T) {
	tr, delivered := recording(t)
	_, s := tr.Start(t.Context(), Pack, time.Now(), Of{Batch: schema.Batch{Bucket: "b\xff"}})
	s.End(errors.New("what\xff"))
	spans := delivered()
	if len(spans) != 1 || spans[0].Status.GetMessage() != "what\uFFFD" {
		t.Errorf("spans are %v", spans)
	}
}

func TestResourceIsThatOfTheProcess(t *testing.T) {
	got := pairs(resource.NewSchemaless(attribute.String("service.name", "penstock-pack"), attribute.Int("process.pid", 7)).Attributes())
	if len(got) != 2 || got[0].Value.GetIntValue() != 7 || got[1].Value.GetStringValue() != "penstock-pack" {
		t.Errorf("resource is %v", got)
	}
}
