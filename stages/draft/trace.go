package draft

import (
	"context"
	"errors"
	"sync"
	"time"

	"penstock/stages/internal/telemetry"
	"penstock/stages/internal/worker"
)

// traces follow the batches of this rank from their hop to the acknowledgement of their root. It is safe for concurrent
// use.
type traces struct {
	w    *worker.Worker
	mu   sync.Mutex
	open map[string]traced // by root
}

// traced is a batch whose gradient was computed.
type traced struct {
	ctx     context.Context // of its training
	of      telemetry.Of
	trained time.Time
}

func newTraces(w *worker.Worker) *traces { return &traces{w: w, open: map[string]traced{}} }

// training begins the drafter's work on a batch, which ends its hop's queue.
func (t *traces) training(ctx context.Context, h worker.Hop) (end func(error)) {
	of := worker.SpanOfHop(h)
	ctx = t.w.Trace.Continue(ctx, h.Header)
	t.w.Trace.Queued(ctx, of, time.Unix(0, h.Record.Sent))
	ctx, done := t.w.Timed(ctx, telemetry.Train, of)
	return func(err error) {
		if errors.Is(err, errVoid) {
			err = nil
		}
		done(err)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.open[h.Record.Root] = traced{ctx, of, time.Now()}
	}
}

// committed ends the wait of batches, given by their roots, for their window's commit.
func (t *traces) committed(roots []string) {
	for _, b := range t.those(roots) {
		_, s := t.w.Trace.Start(b.ctx, telemetry.Commit, b.trained, worker.Quiet(b.of))
		s.End(nil)
	}
}

func (t *traces) those(roots []string) (batches []traced) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range roots {
		if b, ok := t.open[r]; ok {
			batches = append(batches, b)
		}
	}
	return batches
}

// stepping begins the optimizer step of a window over the batches of the given roots.
func (t *traces) stepping(ctx context.Context, window uint32, roots []string) (end func(error)) {
	began, batches := time.Now(), t.those(roots)
	t.mu.Lock()
	defer t.mu.Unlock()
	for root, b := range t.open {
		if b.of.Window < window { // refused by the ledger, or acknowledged by another rank
			delete(t.open, root)
		}
	}
	return func(err error) {
		var linked []context.Context
		for _, b := range batches {
			linked = append(linked, b.ctx)
		}
		t.w.Trace.Stepped(ctx, window, began, linked, err)
		took := time.Since(began)
		t.w.Metrics.Step(took.Seconds())
		t.w.Status.Took(telemetry.Step, 1, took)
	}
}

// acknowledging takes the batch of a root that is about to be acknowledged, which begins when begin is called. A root
// whose batch another rank trained has no trace here.
func (t *traces) acknowledging(root string) (begin func() (end func(error))) {
	t.mu.Lock()
	b, ok := t.open[root]
	delete(t.open, root)
	t.mu.Unlock()
	if !ok {
		return func() func(error) { return func(error) {} }
	}
	of := worker.Quiet(b.of)
	of.Subject, of.Operation = "ps.fwd."+of.Bucket, telemetry.Settled
	return func() func(error) {
		_, s := t.w.Trace.Start(b.ctx, telemetry.Acknowledge, time.Now(), of)
		return s.End
	}
}
