// Package telemetry follows batches through the processes of a run: one OpenTelemetry trace a batch, whose context
// travels in message headers. Spans are exported over OTLP where the standard environment variables name an endpoint.
// Where they do not, nothing but the latest spans is kept, in memory, for the run's page.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// scopeName is OpenTelemetry's instrumentation scope.
const scopeName = "penstock"

// flushFor bounds how long the end of a process waits for a collector that is slow or gone.
const flushFor = 2 * time.Second

// Process is whose spans they are.
type Process struct{ Run, Stage, Instance, Device string }

// Tracer makes the spans of one process. It is safe for concurrent use.
type Tracer struct {
	recent  *Recent
	out     *delivery    // nil when spans are not exported
	ids     trace.Tracer // names spans and samples; nothing else is kept in its spans
	inherit bool         // a child is sampled when its parent is, and needs not ask
}

// Open reads the OTEL_ variables and returns a tracer that exports as they say. Where they name no sampler, a share of the
// batches is traced, from 0 to 1. onError is told of spans that could not be delivered; it must not block.
func Open(ctx context.Context, p Process, share float64, onError func(error)) (*Tracer, error) {
	t := &Tracer{recent: newRecent(p.Instance)}
	if !exports(os.Getenv, onError) {
		return t, nil
	}
	res, err := describe(ctx, p)
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(onError))
	out := newDelivery(newClient(exportProtocol(os.Getenv), onError), res, p.Device, readLimits(os.Getenv), onError)
	if err := out.start(ctx); err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	t.export(out, share)
	return t, nil
}

// export has spans delivered, of a share of the batches where the environment names no sampler.
func (t *Tracer) export(out *delivery, share float64) {
	var options []sdktrace.TracerProviderOption
	sampler := os.Getenv("OTEL_TRACES_SAMPLER")
	if sampler == "" {
		// A child is sampled when its root is, so that a trace is whole or not there.
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))))
	}
	t.inherit = sampler == "" || strings.HasPrefix(sampler, "parentbased_")
	t.ids, t.out = sdktrace.NewTracerProvider(options...).Tracer(scopeName), out
}

// describe is the resource: what is known here, overridden by OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
func describe(ctx context.Context, p Process) (*resource.Resource, error) {
	res, err := resource.New(ctx,
		resource.WithAttributes(
			semconv.ServiceName("penstock-"+p.Stage), semconv.ServiceNamespace("penstock"), semconv.ServiceVersion(version()),
			semconv.ServiceInstanceID(p.Run+"/"+p.Instance),
			attribute.String("penstock.run", p.Run), attribute.String("penstock.instance", p.Instance), attribute.String("penstock.device", p.Device),
		),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv(),
	)
	if err != nil && !errors.Is(err, resource.ErrPartialResource) && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("describe this process to OpenTelemetry: %w", err)
	}
	return res, nil
}

// version is that of the program, as its build knows it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return ""
}

// Close delivers what is buffered, for a short time at most.
func (t *Tracer) Close(ctx context.Context) error {
	if t.out == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushFor)
	defer cancel()
	return t.out.close(ctx)
}

// Recent returns the latest spans of this process.
func (t *Tracer) Recent() *Recent { return t.recent }

var propagator = propagation.TraceContext{}

// Inject writes the trace context of ctx into a message's headers.
func (t *Tracer) Inject(ctx context.Context, header map[string][]string) {
	if t.out != nil {
		propagator.Inject(ctx, carrier(header))
	}
}

// Continue returns ctx with the trace context of a message's headers.
func (t *Tracer) Continue(ctx context.Context, header map[string][]string) context.Context {
	if t.out == nil {
		return ctx
	}
	return propagator.Extract(ctx, carrier(header))
}

// Carry returns ctx with the trace context of another one, whose deadline it does not take.
func Carry(ctx, from context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.SpanContextFromContext(from))
}

// carrier keeps names as they are: lower case, as every other language writes and reads them. NATS headers are
// case-sensitive.
type carrier map[string][]string

func (c carrier) Get(key string) string {
	if v := c[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (c carrier) Set(key, value string) { c[key] = []string{value} }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}
