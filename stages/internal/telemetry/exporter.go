package telemetry

import (
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
)

// The variables that say where spans go. One with a value that is not there is warned of and ignored, as OpenTelemetry asks: a
// variable that is set for the whole host keeps no run from starting.

// exports reports whether spans are exported. Without a word on exporters that is so where there is an endpoint.
func exports(env func(string) string, onError func(error)) bool {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	names := env("OTEL_TRACES_EXPORTER")
	if names == "" {
		return firstSet(env, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") != ""
	}
	on := false
	for name := range strings.SplitSeq(names, ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "otlp":
			on = true
		case "none":
			return false
		default:
			onError(fmt.Errorf("OTEL_TRACES_EXPORTER is %q: only otlp and none are there", names))
		}
	}
	return on
}

// exportProtocol returns how spans are exported.
func exportProtocol(env func(string) string) string {
	if p := firstSet(env, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" {
		return strings.ToLower(p)
	}
	return "http/protobuf"
}

// firstSet is the value of the first variable that has one.
func firstSet(env func(string) string, names ...string) string {
	for _, n := range names {
		if v := env(n); v != "" {
			return v
		}
	}
	return ""
}

// newClient returns the client of a protocol.
func newClient(protocol string, onError func(error)) otlptrace.Client {
	switch protocol {
	case "grpc":
		return otlptracegrpc.NewClient()
	case "http/protobuf":
	default:
		onError(fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: http/protobuf is used; grpc is there too", protocol))
	}
	return otlptracehttp.NewClient(otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf)) // whatever the variable says
}
