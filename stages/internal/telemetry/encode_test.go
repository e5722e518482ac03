package telemetry

import (
	"errors"
	"io/fs"
	"os"
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

// form is a span and what the SDK is told of it.
type form struct {
	name       string
	span       Span
	kind       trace.SpanKind
	attributes []attribute.KeyValue
}

// forms are spans of every form.
func forms(t *testing.T) []form {
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
	return []form{
		{"a root", Span{name: Build, of: with(Sent, nil, 0, false)}, trace.SpanKindProducer, message("send")},
		{"from another process", Span{name: Forward, of: with(Processed, &schema.SlotRef{Pool: "target-1"}, 1<<40, true), parent: remote}, trace.SpanKindConsumer,
			message("process", attribute.String("penstock.pool", "target-1"), attribute.Int("penstock.slot", 0),
				attribute.Bool("penstock.redelivered", true), attribute.Int64("messaging.nats.stream.sequence", 1<<40))},
		{"from this process", Span{name: Acknowledge, of: with(Settled, nil, 0, false), parent: local}, trace.SpanKindClient, message("settle")},
		{"without a message", Span{name: Commit, of: batch, parent: remote}, trace.SpanKindInternal, of},
		{"a failure", Span{name: Pack, of: batch, parent: remote, err: &fs.PathError{Op: "map", Path: "slab", Err: errors.New("gone")}}, trace.SpanKindInternal, of},
		{"a step", Span{name: Step, of: Of{Batch: schema.Batch{Window: 9}}, batches: 2, links: []trace.SpanContext{remote, local}}, trace.SpanKindInternal,
			[]attribute.KeyValue{attribute.Int("penstock.window", 9), attribute.Int("penstock.batches", 2), attribute.String("penstock.device", "cpu")}},
	}
}

// pair returns a span as it is delivered, and as the SDK sends it.
func (f *form) pair(t *testing.T) (got, want *otlp.Span) {
	s := &f.span
	s.start = time.Now().UnixNano()
	s.end = s.start + 5_000_000
	want, got = official(t, s, f.kind, f.attributes...), &otlp.Span{}
	d := newDelivery(nil, resource.Empty(), "cpu", readLimits(os.Getenv), func(err error) { t.Errorf("%s: %v", f.name, err) })
	d.add(s)
	scope := &otlp.ScopeSpans{}
	if err := proto.Unmarshal(d.open.spans, scope); err != nil || len(scope.Spans) != 1 {
		t.Fatalf("%s: %v, %v", f.name, scope, err)
	}
	got = scope.Spans[0]
	if got.Status == nil {
		got.Status = &otlp.Status{} // unset is a status that is not there
	}
	for _, s := range []*otlp.Span{want, got} {
		slices.SortFunc(s.Attributes, func(a, b *common.KeyValue) int { return strings.Compare(a.Key, b.Key) })
	}
	return got, want
}

// TestSpansAreEncodedAsTheSDKDoes holds spans of every form, field by field, against what OpenTelemetry's exporter sends.
func TestSpansAreEncodedAsTheSDKDoes(t *testing.T) {
	for _, f := range forms(t) {
		if got, want := f.pair(t); !proto.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", f.name, got, want)
		}
	}
}

// TestSpansAreBoundedAsTheSDKDoes holds them against it where the environment sets bounds. Which attributes of too many are
// dropped is each one's own affair.
func TestSpansAreBoundedAsTheSDKDoes(t *testing.T) {
	if readBounds(func(string) string { return "" }) != nil {
		t.Error("bounds that nobody has set")
	}
	for name, values := range map[string][]string{
		"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": {"0", "3", "-1", "nonsense"}, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": {"2"},
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": {"0", "4", "1000"}, "OTEL_ATTRIBUTE_COUNT_LIMIT": {"5"},
		"OTEL_SPAN_EVENT_COUNT_LIMIT": {"0", "1"}, "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": {"0", "1"}, "OTEL_SPAN_LINK_COUNT_LIMIT": {"0", "1", "2"},
	} {
		for _, value := range values {
			t.Run(name+"="+value, func(t *testing.T) {
				t.Setenv(name, value)
				for _, f := range forms(t) {
					got, want := f.pair(t)
					if want.DroppedAttributesCount > 0 && len(got.Attributes) == len(want.Attributes) {
						got.Attributes, want.Attributes = nil, nil
					}
					if value == "0" { // the SDK does not count events and links of which it keeps none
						got.DroppedEventsCount, got.DroppedLinksCount = want.DroppedEventsCount, want.DroppedLinksCount
					}
					if !proto.Equal(got, want) {
						t.Errorf("%s:\n got %v\nwant %v", f.name, got, want)
					}
				}
			})
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
