package telemetry

import (
	"slices"
	"unicode/utf8"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// boundsFrom are the variables that bound what a span holds. OpenTelemetry's defaults are far above what one here does, but for
// the links of a step, of which there are as many as batches in a window: without a variable all of them are kept.
var boundsFrom = []string{
	"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
	"OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
}

// bounds are those of the SDK's spans; a negative one is none.
type bounds sdktrace.SpanLimits

// readBounds returns the bounds that the environment sets, nil without any.
func readBounds(env func(string) string) *bounds {
	if !slices.ContainsFunc(boundsFrom, func(name string) bool { return env(name) != "" }) {
		return nil
	}
	b := bounds(sdktrace.NewSpanLimits())
	if env("OTEL_SPAN_LINK_COUNT_LIMIT") == "" {
		b.LinkCountLimit = -1
	}
	return &b
}

// cut returns an encoded span within the bounds, which counts what was dropped.
func (b *bounds) cut(encoded wire) (wire, error) {
	s := &otlp.Span{}
	if err := proto.Unmarshal(encoded, s); err != nil {
		return nil, err
	}
	for _, a := range s.Attributes {
		b.shorten(a)
	}
	s.Attributes, s.DroppedAttributesCount = first(s.Attributes, b.AttributeCountLimit)
	s.Events, s.DroppedEventsCount = last(s.Events, b.EventCountLimit)
	for _, e := range s.Events {
		e.Attributes, e.DroppedAttributesCount = first(e.Attributes, b.AttributePerEventCountLimit)
	}
	s.Links, s.DroppedLinksCount = last(s.Links, b.LinkCountLimit)
	return proto.Marshal(s)
}

// shorten cuts a text behind so many characters.
func (b *bounds) shorten(a *common.KeyValue) {
	v, ok := a.Value.Value.(*common.AnyValue_StringValue)
	if !ok || b.AttributeValueLengthLimit < 0 {
		return
	}
	end := 0
	for n := 0; n < b.AttributeValueLengthLimit && end < len(v.StringValue); n++ {
		_, size := utf8.DecodeRuneInString(v.StringValue[end:])
		end += size
	}
	v.StringValue = v.StringValue[:end]
}

// first keeps the first so many and counts the others.
func first[T any](all []T, most int) ([]T, uint32) {
	if most < 0 || len(all) <= most {
		return all, 0
	}
	return all[:most], uint32(len(all) - most)
}

// last keeps the last so many and counts the others.
func last[T any](all []T, most int) ([]T, uint32) {
	if most < 0 || len(all) <= most {
		return all, 0
	}
	return all[len(all)-most:], uint32(len(all) - most)
}
