package telemetry

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlpresource "go.opentelemetry.io/proto/otlp/resource/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

// limits are those of OpenTelemetry's batch span processor, with its defaults.
type limits struct {
	delay, timeout time.Duration
	queue, batch   int // spans
}

func readLimits(env func(string) string) limits {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(env(name)); err == nil && n > 0 && n < 1<<31 {
			return n
		}
		return otherwise
	}
	l := limits{
		delay:   time.Duration(number("OTEL_BSP_SCHEDULE_DELAY", 5000)) * time.Millisecond,
		timeout: time.Duration(number("OTEL_BSP_EXPORT_TIMEOUT", 30000)) * time.Millisecond,
		queue:   number("OTEL_BSP_MAX_QUEUE_SIZE", 2048),
		batch:   number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
	}
	l.batch = min(l.batch, l.queue)
	return l
}

// parcel is spans that are delivered together, as the field of a scope's message that holds them.
type parcel struct {
	spans wire
	n     int
}

// delivery takes encoded spans and hands them to a client, some at a time, from a goroutine that sleeps meanwhile: a span's
// end wakes nobody. Spans that a slow collector leaves no room for are dropped and counted.
type delivery struct {
	client     otlptrace.Client
	from       *otlp.ResourceSpans // without spans
	everywhere wire                // attributes of every span
	limits     limits
	bounds     *bounds // of a span; nil: none
	onError    func(error)

	mu      sync.Mutex
	open    parcel
	full    []parcel
	spare   wire // of a parcel that was delivered
	scratch wire // a span
	held    int  // spans in open and full
	dropped int

	wake, stop, ended chan struct{}
	cancel            context.CancelFunc
}

func newDelivery(client otlptrace.Client, from *resource.Resource, device string, l limits, onError func(error)) *delivery {
	return &delivery{client: client, from: &otlp.ResourceSpans{Resource: &otlpresource.Resource{Attributes: pairs(from.Attributes())}, SchemaUrl: from.SchemaURL()},
		everywhere: wire(nil).text(spanAttribute, "penstock.device", device), limits: l, bounds: readBounds(os.Getenv), onError: onError}
}

// start begins to deliver. Close ends it.
func (d *delivery) start(ctx context.Context) error {
	if err := d.client.Start(ctx); err != nil {
		return err
	}
	d.wake, d.stop, d.ended = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go d.run(ctx)
	return nil
}

func (d *delivery) run(ctx context.Context) {
	defer close(d.ended)
	tick := time.NewTicker(d.limits.delay)
	defer tick.Stop()
	for {
		select {
		case <-d.wake:
			d.deliver(ctx, false)
		case <-tick.C:
			d.deliver(ctx, true)
		case <-d.stop:
			d.deliver(ctx, true)
			return
		}
	}
}

// add takes a span that has ended.
func (d *delivery) add(s *Span) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == d.limits.queue {
		d.dropped++
		return
	}
	d.scratch = d.scratch[:0].span(s, d.everywhere)
	if d.bounds != nil {
		cut, err := d.bounds.cut(d.scratch)
		if err != nil {
			d.onError(fmt.Errorf("export traces: a %s span within the bounds of the environment: %w", s.name, err))
			return
		}
		d.scratch = cut
	}
	d.open.spans = d.open.spans.bytes(spansOfScope, d.scratch)
	d.open.n++
	d.held++
	if d.open.n < d.limits.batch {
		return
	}
	d.seal()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// seal has the open parcel delivered as it is.
func (d *delivery) seal() {
	d.full = append(d.full, d.open)
	d.open = parcel{spans: d.spare}
	d.spare = nil
}

// deliver hands full parcels to the client, and with all set the open one too. It tells of what is lost.
func (d *delivery) deliver(ctx context.Context, all bool) {
	if all {
		d.mu.Lock()
		if d.open.n > 0 {
			d.seal()
		}
		d.mu.Unlock()
	}
	for {
		p, dropped := d.next()
		if dropped > 0 {
			d.onError(fmt.Errorf("export traces: %d spans dropped, the collector takes them too slowly", dropped))
		}
		if p.n == 0 {
			return
		}
		if err := d.upload(ctx, p); err != nil {
			d.onError(fmt.Errorf("export traces: %d spans: %w", p.n, err))
		}
		d.mu.Lock()
		d.spare = p.spans[:0]
		d.mu.Unlock()
	}
}

// next takes the oldest full parcel, which is empty if there is none, and how many spans were dropped since it was asked before.
func (d *delivery) next() (p parcel, dropped int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	dropped, d.dropped = d.dropped, 0
	if len(d.full) > 0 {
		p, d.full = d.full[0], d.full[1:]
		d.held -= p.n
	}
	return p, dropped
}

// upload sends a parcel. The client writes a message's unknown fields as they are, so spans that are encoded already need
// not be messages again.
func (d *delivery) upload(ctx context.Context, p parcel) error {
	ctx, cancel := context.WithTimeout(ctx, d.limits.timeout)
	defer cancel()
	scope := &otlp.ScopeSpans{Scope: &common.InstrumentationScope{Name: scopeName}, SchemaUrl: semconv.SchemaURL}
	scope.ProtoReflect().SetUnknown([]byte(p.spans))
	return d.client.UploadTraces(ctx, []*otlp.ResourceSpans{{Resource: d.from.Resource, SchemaUrl: d.from.SchemaUrl, ScopeSpans: []*otlp.ScopeSpans{scope}}})
}

// close delivers what is left until ctx ends, and ends the delivery. It is called once.
func (d *delivery) close(ctx context.Context) error {
	close(d.stop)
	select {
	case <-d.ended:
	case <-ctx.Done():
	}
	d.cancel()
	<-d.ended
	return d.client.Stop(context.WithoutCancel(ctx)) // nothing is on its way
}
