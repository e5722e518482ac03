package telemetry

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"penstock/schema"
)

// flushed is how many batches a flush delivers: about what the default run makes on a fast core within the exporter's delay.
const flushed = 128

// BenchmarkTraceOfABatch is what one batch's trace costs all processes together: its spans and headers, and their delivery
// over HTTP to a collector that throws them away. cpu-ns/op is user and system time.
func BenchmarkTraceOfABatch(b *testing.B) {
	p := stages(b)
	b.ReportAllocs()
	n, before := 0, processorTime(b)
	for b.Loop() {
		oneBatch(p, uint32(n))
		if n++; n%flushed == 0 {
			for _, t := range p {
				t.out.deliver(b.Context(), true)
			}
		}
	}
	b.ReportMetric(float64(processorTime(b)-before)/float64(n), "cpu-ns/op")
}

// TestTraceOfABatchAllocatesLittle: most of a span's cost is memory, in processes whose heaps are so small that it sets off
// a collection every few hundred spans.
func TestTraceOfABatchAllocatesLittle(t *testing.T) {
	p := stages(t)
	n := testing.AllocsPerRun(100, func() { oneBatch(p, 0) })
	if n > 90 {
		t.Errorf("%v allocations for 13 spans and 3 messages, want 90 at most", n)
	}
}

// stages are the tracers of batch, target, pack and draft, until the test ends.
func stages(t testing.TB) (p [4]*Tracer) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(srv.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	for i, stage := range []string{"batch", "target", "pack", "draft"} {
		of := Process{Run: "20260101-000000-tiny", Stage: stage, Instance: stage + "-1", Device: "cpu"}
		var err error
		if p[i], err = Open(t.Context(), of, 1, func(err error) { t.Error(err) }); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p[i].Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	return p
}

// oneBatch makes the spans of a batch, as the stages do.
func oneBatch(p [4]*Tracer, index uint32) {
	batch, target, pack, draft := p[0], p[1], p[2], p[3]
	now := time.Now()
	of := Of{Batch: schema.Batch{Run: "20260101-000000-tiny", Gen: 1, Window: index / 3, Index: index, Bucket: "b176"}, Tokens: 480}

	root := of
	root.Subject, root.Operation = "ps.fwd.b176", Sent
	ctx, s := batch.Start(context.Background(), Build, now, root)
	header := map[string][]string{}
	batch.Inject(ctx, header)
	s.End(nil)

	root.Operation, root.Seq, root.Slot = Processed, uint64(index), &schema.SlotRef{Pool: "target-1", Slot: 1}
	ctx = target.Continue(context.Background(), header)
	target.Queued(ctx, root, now, Wait{CreditWait, time.Time{}}, Wait{SlotWait, now})
	ctx, s = target.Start(ctx, Forward, time.Now(), root)
	s.End(nil)
	header = map[string][]string{}
	target.Inject(Carry(context.Background(), ctx), header)

	hop := root
	hop.Subject, hop.Slot = "ps.pack.b176", &schema.SlotRef{Pool: "pack-1", Slot: 1}
	ctx = pack.Continue(context.Background(), header)
	pack.Queued(ctx, hop, now, Wait{SlotWait, now})
	ctx, s = pack.Start(ctx, Pack, time.Now(), hop)
	_, copied := pack.Start(ctx, Copy, time.Now(), Of{Batch: hop.Batch, Tokens: hop.Tokens, Slot: hop.Slot})
	copied.End(nil)
	s.End(nil)
	header = map[string][]string{}
	pack.Inject(Carry(context.Background(), ctx), header)

	hop.Subject = "ps.train.b176"
	ctx = draft.Continue(context.Background(), header)
	draft.Queued(ctx, hop, now)
	ctx, s = draft.Start(ctx, Train, time.Now(), hop)
	s.End(nil)
	quiet := hop
	quiet.Subject, quiet.Operation = "", nil
	_, s = draft.Start(ctx, Commit, time.Now(), quiet)
	s.End(nil)
	quiet.Subject, quiet.Operation = "ps.fwd.b176", Settled
	_, s = draft.Start(ctx, Acknowledge, time.Now(), quiet)
	s.End(nil)
	if index%3 == 2 {
		draft.Stepped(context.Background(), index/3, now, []context.Context{ctx, ctx, ctx}, nil)
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
