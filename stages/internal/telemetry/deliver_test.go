package telemetry

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
)

// gate is a collector that takes each delivery only once it is let through.
type gate struct {
	collector
	asked   chan int // spans of a delivery
	through chan error
}

func (g *gate) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	before := len(g.spans)
	if err := g.collector.UploadTraces(ctx, spans); err != nil {
		return err
	}
	g.asked <- len(g.spans) - before
	select {
	case err := <-g.through:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gated starts a delivery that only the count of spans sets off. What it reports is in the errors.
func gated(t *testing.T, batch, queue int) (*delivery, *gate, func() []error) {
	t.Helper()
	var mu sync.Mutex
	var errs []error
	g := &gate{asked: make(chan int, 9), through: make(chan error, 9)}
	d := newDelivery(g, resource.Empty(), "cpu", limits{delay: time.Hour, timeout: time.Hour, queue: queue, batch: batch}, func(err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	if err := d.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d, g, func() []error {
		mu.Lock()
		defer mu.Unlock()
		return errs
	}
}

func TestFullParcelsGoAtOnceAndTheRestAtTheEnd(t *testing.T) {
	d, g, errs := gated(t, 2, 100)
	g.through <- nil
	g.through <- nil
	g.through <- nil
	for range 5 {
		d.add(&Span{name: Train})
	}
	if a, b := <-g.asked, <-g.asked; a != 2 || b != 2 {
		t.Errorf("deliveries of %d and %d spans", a, b)
	}
	if err := d.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(g.spans) != 5 || len(errs()) > 0 {
		t.Errorf("%d spans of 5, errors %v", len(g.spans), errs())
	}
}

func TestSlowCollectorLosesSpansThatAreCounted(t *testing.T) {
	d, g, errs := gated(t, 2, 4)
	for range 2 {
		d.add(&Span{name: Train})
	}
	<-g.asked // these are on their way, and make room
	for range 7 {
		d.add(&Span{name: Train})
	}
	g.through <- nil
	g.through <- errors.New("full")
	g.through <- nil
	if err := d.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "[export traces: 3 spans dropped, the collector takes them too slowly export traces: 2 spans: full]"
	if got := fmt.Sprint(errs()); got != want || len(g.spans) != 6 {
		t.Errorf("%d spans, errors %v; want 6, %v", len(g.spans), got, want)
	}
}

func TestCloseDoesNotWaitForACollectorThatHangs(t *testing.T) {
	d, g, errs := gated(t, 2, 4)
	d.add(&Span{name: Train})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-g.asked
		cancel()
	}()
	if err := d.close(ctx); err != nil {
		t.Fatal(err)
	}
	if e := errs(); len(e) != 1 || !errors.Is(e[0], context.Canceled) {
		t.Errorf("errors are %v", e)
	}
}

func TestLimitsComeFromTheEnvironment(t *testing.T) {
	if got, want := readLimits(func(string) string { return "" }), (limits{5 * time.Second, 30 * time.Second, 2048, 512}); got != want {
		t.Errorf("limits are %v, want %v", got, want)
	}
	env := map[string]string{"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_BSP_EXPORT_TIMEOUT": "-1", "OTEL_BSP_MAX_QUEUE_SIZE": "64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "many"}
	if got, want := readLimits(func(k string) string { return env[k] }), (limits{100 * time.Millisecond, 30 * time.Second, 64, 64}); got != want {
		t.Errorf("limits are %v, want %v", got, want)
	}
}
