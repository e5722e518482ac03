package telemetry

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"penstock/schema"
)

// collector keeps what is delivered to it, as every receiver would read it.
type collector struct {
	t     testing.TB
	spans []*otlp.Span
}

func (c *collector) Start(context.Context) error { return nil }
func (c *collector) Stop(context.Context) error  { return nil }

func (c *collector) UploadTraces(_ context.Context, spans []*otlp.ResourceSpans) error {
	sent, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	var got otlp.TracesData
	if err := proto.Unmarshal(sent, &got); err != nil {
		return err
	}
	for _, rs := range got.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	return nil
}

// recording returns a tracer and what ends its delivery and returns the spans that came.
func recording(t testing.TB) (*Tracer, func() []*otlp.Span) {
	t.Helper()
	tr, err := Open(t.Context(), Process{Run: "r", Stage: "target", Instance: "target-1"}, 1, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{t: t}
	out := newDelivery(c, resource.Empty(), "cpu", readLimits(os.Getenv), func(err error) { t.Error(err) })
	if err := out.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.export(out, 1)
	return tr, func() []*otlp.Span {
		if err := tr.Close(t.Context()); err != nil {
			t.Error(err)
		}
		return c.spans
	}
}

func TestContextTravelsInLowerCaseHeaders(t *testing.T) {
	tr, delivered := recording(t)
	of := Of{Batch: schema.Batch{Run: "r", Gen: 2, Window: 3, Index: 7, Bucket: "b96"}, Tokens: 900, Subject: "ps.fwd.b96", Operation: Sent,
		Slot: &schema.SlotRef{Pool: "target-1", Slot: 2}}
	ctx, build := tr.Start(t.Context(), Build, time.Now(), of)
	header := map[string][]string{}
	tr.Inject(ctx, header)
	build.End(nil)
	if len(header["traceparent"]) != 1 || len(header["Traceparent"]) != 0 {
		t.Fatalf("headers are %v, want a lower-case traceparent", header)
	}
	of.Operation = Processed
	_, forward := tr.Start(tr.Continue(context.Background(), header), Forward, time.Now(), of)
	forward.End(errors.New("out of memory"))

	spans := delivered()
	if len(spans) != 2 || !bytes.Equal(spans[1].ParentSpanId, spans[0].SpanId) || !bytes.Equal(spans[1].TraceId, spans[0].TraceId) {
		t.Fatalf("forward is not a child of build: %+v", spans)
	}
	if spans[1].Status.GetMessage() != "out of memory" || len(spans[1].Events) != 1 {
		t.Errorf("the failure is not recorded: %+v", spans[1].Status)
	}
	want := map[string]string{
		"penstock.bucket": "b96", "penstock.window": "3", "penstock.batch": "7", "penstock.tokens": "900", "penstock.slot": "2", "penstock.device": "cpu",
		"messaging.system": "nats", "messaging.destination.name": "ps.fwd.b96", "messaging.operation.type": "process",
	}
	for _, kv := range spans[1].Attributes {
		if w, ok := want[kv.Key]; ok && (kv.Value.GetStringValue() == w || strconv.FormatInt(kv.Value.GetIntValue(), 10) == w) {
			delete(want, kv.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("attributes missing or wrong: %v", want)
	}
}

// TestParentDecidesUnlessTheSamplerIsAnother: a child is sampled when its parent is, wherever that was made, except by a
// sampler that looks at no parent.
func TestParentDecidesUnlessTheSamplerIsAnother(t *testing.T) {
	const taken, left = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01", "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-00"
	for _, c := range []struct {
		sampler, parent string
		spans           int
	}{{"", taken, 2}, {"", left, 0}, {"parentbased_always_off", taken, 2}, {"parentbased_always_on", left, 0}, {"always_off", taken, 0}, {"always_on", left, 2}} {
		t.Run(c.sampler, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			tr, delivered := recording(t)
			ctx, train := tr.Start(tr.Continue(t.Context(), map[string][]string{"traceparent": {c.parent}}), Train, time.Now(), Of{})
			_, commit := tr.Start(ctx, Commit, time.Now(), Of{})
			commit.End(nil)
			train.End(nil)
			spans := delivered()
			if len(spans) != c.spans {
				t.Fatalf("%d spans below %s, want %d", len(spans), c.parent, c.spans)
			}
			if len(spans) == 2 && (hex.EncodeToString(spans[1].ParentSpanId) != c.parent[36:52] || !bytes.Equal(spans[0].ParentSpanId, spans[1].SpanId) ||
				spans[1].Flags&0x300 != 0x300 || spans[0].Flags&0x300 != 0x100) {
				t.Errorf("only the first is a child of another process: %v", spans)
			}
		})
	}
}

func TestStepLinksToItsBatches(t *testing.T) {
	tr, delivered := recording(t)
	var batches []context.Context
	for i := range 3 {
		ctx, s := tr.Start(t.Context(), Train, time.Now(), Of{Batch: schema.Batch{Index: uint32(i)}})
		s.End(nil)
		batches = append(batches, ctx)
	}
	tr.Stepped(t.Context(), 4, time.Now(), batches, nil)
	spans := delivered()
	step := spans[3]
	if step.Name != Step || len(step.Links) != 3 || len(step.ParentSpanId) > 0 {
		t.Fatalf("step is %+v", step)
	}
	for i, l := range step.Links {
		if !bytes.Equal(l.TraceId, spans[i].TraceId) || !bytes.Equal(l.SpanId, spans[i].SpanId) {
			t.Errorf("link %d is not batch %d", i, i)
		}
	}
}

func TestQueueHoldsItsWaits(t *testing.T) {
	tr, delivered := recording(t)
	stored := time.Now().Add(-time.Second)
	tr.Queued(t.Context(), Of{}, stored, Wait{CreditWait, stored.Add(-time.Hour)}, Wait{SlotWait, time.Time{}})
	spans := delivered()
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	credit, slot, queue := spans[0], spans[1], spans[2]
	if credit.StartTimeUnixNano != queue.StartTimeUnixNano || credit.EndTimeUnixNano != queue.EndTimeUnixNano {
		t.Errorf("a wait since before the message is the whole queue: %v..%v", credit.StartTimeUnixNano, credit.EndTimeUnixNano)
	}
	if slot.StartTimeUnixNano+1 != slot.EndTimeUnixNano || slot.EndTimeUnixNano != queue.EndTimeUnixNano {
		t.Error("no wait is as short as collectors take it")
	}
	if !bytes.Equal(credit.ParentSpanId, queue.SpanId) {
		t.Error("a wait is a part of its queue")
	}
}

func TestRecentKeepsTheLatest(t *testing.T) {
	r := newRecent("p")
	for range remembered + 10 {
		r.add(Entry{Name: Train})
	}
	all := r.After(0)
	if len(all) != remembered || all[0].Serial != 11 || all[len(all)-1].Serial != remembered+10 {
		t.Errorf("%d entries, %d to %d", len(all), all[0].Serial, all[len(all)-1].Serial)
	}
	if got := r.After(remembered + 8); len(got) != 2 {
		t.Errorf("%d entries behind the last but two", len(got))
	}
	if got := r.After(1 << 40); len(got) != remembered {
		t.Errorf("a serial of a former process gives %d entries", len(got))
	}
}

// BenchmarkSpan is what one span costs the process that it is in: off, and exported to memory.
func BenchmarkSpan(b *testing.B) {
	of := Of{Batch: schema.Batch{Run: "r", Bucket: "b96"}, Subject: "ps.fwd.b96", Operation: Processed}
	b.Run("off", func(b *testing.B) {
		tr, err := Open(b.Context(), Process{}, 1, func(error) {})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			_, s := tr.Start(b.Context(), Train, time.Now(), of)
			s.End(nil)
		}
	})
	b.Run("on", func(b *testing.B) {
		tr, delivered := recording(b)
		defer delivered()
		for b.Loop() {
			_, s := tr.Start(b.Context(), Train, time.Now(), of)
			s.End(nil)
		}
	})
}
