package broker_test

import (
	"slices"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
)

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkHandOff is the time from the call of Publish to the return of Next in another client.
func BenchmarkHandOff(b *testing.B) {
	p := brokertest.StartProcess(b, "default")
	c, d := p.Conn("target", broker.Options{}), p.Conn("pack", broker.Options{})
	ctx := b.Context()
	brokertest.Open(b, c, 1, 8, "b64")
	src, err := d.Hops(ctx, broker.Pack, 1)
	if err != nil {
		b.Fatal(err)
	}
	pub := broker.NewPublisher(c, broker.Pack)
	var took []time.Duration
	for b.Loop() {
		sent := make(chan time.Time, 1)
		failed := make(chan error, 1)
		go func() {
			sent <- time.Now()
			failed <- pub.Publish(ctx, "b64", schema.Hop{Batch: batch(1, 0, 0)}, "")
		}()
		d, err := src.Next(ctx)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(<-sent))
		if err := <-failed; err != nil {
			b.Fatal(err)
		}
		if err := d.Ack(ctx); err != nil {
			b.Fatal(err)
		}
	}
	report(b, took)
}

// BenchmarkFetch is one pull by a target: of a root that is there, of an empty bucket, of a bucket without credit.
func BenchmarkFetch(b *testing.B) {
	p := brokertest.StartProcess(b, "default")
	c := p.Conn("target", broker.Options{})
	ctx := b.Context()
	brokertest.Open(b, c, 1, 1, "b64", "b128")
	pull, empty := roots(b, c, 1, "b64"), roots(b, c, 1, "b128")
	b.Run("root", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			publish(b, c, root(1, 0, uint32(time.Now().UnixNano()), "b64"))
			start := time.Now()
			d := brokertest.Fetch(b, pull)
			took = append(took, time.Since(start))
			if err := d.Ack(ctx); err != nil {
				b.Fatal(err)
			}
		}
		report(b, took)
	})
	miss := func(b *testing.B, p *broker.Puller[schema.Root], before func() error) {
		var took []time.Duration
		for b.Loop() {
			if err := before(); err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			if d, err := p.FetchNoWait(ctx); err == nil {
				b.Fatalf("got %+v", d)
			}
			took = append(took, time.Since(start))
		}
		report(b, took)
	}
	b.Run("empty", func(b *testing.B) { miss(b, empty, func() error { return nil }) })
	publish(b, c, root(1, 0, 1, "b64"))
	publish(b, c, root(1, 0, 2, "b64"))
	held := brokertest.Fetch(b, pull)
	b.Run("no credit", func(b *testing.B) { miss(b, pull, held.InProgress) })
}

// BenchmarkAppend is one compare-and-set on the ledger.
func BenchmarkAppend(b *testing.B) {
	p := brokertest.StartProcess(b, "default")
	l := p.Conn("draft", broker.Options{}).Ledger()
	var took []time.Duration
	var i uint32
	for b.Loop() {
		start := time.Now()
		if _, err := l.Claim(b.Context(), schema.Claim{Batch: batch(1, 0, i), Rank: "r0"}, 0); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		i++
	}
	report(b, took)
}

// BenchmarkPipeline is the whole message cost of a batch through all stages with empty work.
func BenchmarkPipeline(b *testing.B) {
	p := brokertest.StartProcess(b, "default")
	c := p.Conn("control", broker.Options{})
	const n = 1000
	var total time.Duration
	var gen uint32
	for b.Loop() {
		gen++
		brokertest.Open(b, c, gen, 24, "b64", "b128")
		start := time.Now()
		if err := runStages(b, &p.Broker, gen, n); err != nil {
			b.Fatal(err)
		}
		total += time.Since(start)
	}
	b.ReportMetric(n*float64(gen)/total.Seconds(), "batches/s")
}
