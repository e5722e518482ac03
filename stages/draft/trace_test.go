package draft

import (
	"slices"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/internal/observe"
	"penstock/stages/internal/telemetry"
	"penstock/stages/internal/worker"
)

// TestSlowAcknowledgementKeepsItsTrace: a root may wait for a settler until the next window has been stepped over.
func TestSlowAcknowledgementKeepsItsTrace(t *testing.T) {
	spans, err := telemetry.Open(t.Context(), telemetry.Process{}, 1, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	tr := newTraces(&worker.Worker{Observer: &observe.Observer{Trace: spans}})
	tr.open["root"] = traced{t.Context(), telemetry.Of{Batch: schema.Batch{Window: 4, Index: 7}}, time.Now()}
	tr.open["refused"] = traced{t.Context(), telemetry.Of{Batch: schema.Batch{Window: 4, Index: 8}}, time.Now()}
	tr.committed([]string{"root"})
	begin := tr.acknowledging("root")
	tr.stepping(t.Context(), 5, nil)
	begin()(nil)
	var names []string
	for _, s := range spans.Recent().After(0) {
		names = append(names, s.Name)
		if s.Batch != 7 {
			t.Errorf("%s is of batch %d", s.Name, s.Batch)
		}
	}
	if want := []string{telemetry.Commit, telemetry.Acknowledge}; !slices.Equal(names, want) {
		t.Errorf("spans are %v, want %v", names, want)
	}
	if len(tr.open) > 0 {
		t.Errorf("%d batches are kept", len(tr.open))
	}
}
