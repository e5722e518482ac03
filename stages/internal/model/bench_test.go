package model

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"penstock/kernels"
	"penstock/kernels/cpu"
	"penstock/kernels/gemm"
	"penstock/kernels/kernelstest"
	"penstock/schema/hf"
)

// tiny has the shapes of the demo model.
var tiny = &hf.Target{Architecture: "Qwen3ForCausalLM", Geometry: hf.Geometry{
	HiddenSize: 128, IntermediateSize: 384, Layers: 6, Heads: 2, KVHeads: 1, HeadDim: 64, VocabSize: 2048,
	MaxPositions: 4096, RMSNormEps: 1e-6, RopeTheta: 1e6,
}}

// tinyBatch is five documents of 250 tokens, whose latter halves are supervised, with 64 anchors.
func tinyBatch(dev kernels.Device, d *Drafter) *Batch {
	const documents, length, anchors = 5, 250, 64
	b := &Batch{Offsets: []int32{0}, IDs: kernelstest.Rows(documents*length, 2000, 1)}
	for i := range documents {
		for j := range length {
			b.Mask = append(b.Mask, uint8(j/(length/2)))
		}
		b.Offsets = append(b.Offsets, int32((i+1)*length))
		for a := range anchors/documents + min(1, max(0, anchors%documents-i)) {
			b.Anchors = append(b.Anchors, int32(i*length+length/2+a*9))
		}
	}
	width := len(d.Config.Taps) * d.Config.TargetHiddenSize
	b.Hidden = kernelstest.New(dev, documents*length, width, kernelstest.Pattern(documents*length*width, 2))
	return b
}

// onPaths runs a benchmark on every matrix product of this machine and reports, beside the mean time by the clock, the
// shortest, which a busy machine disturbs least, and the mean processor time.
func onPaths(b *testing.B, bench func(b *testing.B, dev kernels.Device) func() error) {
	for _, path := range gemm.Paths() {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/t%d", path, threads), func(b *testing.B) {
				dev, err := cpu.New(cpu.Options{Threads: threads, Gemm: path})
				if err != nil {
					b.Fatal(err)
				}
				defer dev.Close()
				once := bench(b, dev)
				if err := once(); err != nil {
					b.Fatal(err)
				}
				best, start := time.Hour, processorTime(b)
				for b.Loop() {
					at := time.Now()
					if err := once(); err != nil {
						b.Fatal(err)
					}
					best = min(best, time.Since(at))
				}
				b.ReportMetric((processorTime(b)-start).Seconds()*1e3/float64(b.N), "cpu-ms/op")
				b.ReportMetric(best.Seconds()*1e3, "best-ms/op")
			})
		}
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkStep is the drafter's forward and backward on one batch: 2 layers, blocks of 8.
func BenchmarkStep(b *testing.B) {
	onPaths(b, func(b *testing.B, dev kernels.Device) func() error {
		vocab := Vocabulary{Embedding: dev.Alloc(2048, 128), Head: dev.Alloc(2048, 128)}
		dev.Upload(vocab.Embedding, kernelstest.Pattern(2048*128, 3))
		dev.Upload(vocab.Head, kernelstest.Pattern(2048*128, 4))
		d, err := NewDrafter(dev, hf.NewDrafterConfig(tiny, 2, 8, 0, 2047, []int{1, 2, 4}), vocab, InitRandom(1))
		if err != nil {
			b.Fatal(err)
		}
		batch, grads := tinyBatch(dev, d), d.Weights.Like()
		return func() error {
			_, err := d.Step(batch, Loss{Kind: DFlash, Gamma: 4}, grads)
			return err
		}
	})
}

// BenchmarkOptimizer is one update of the drafter's weights.
func BenchmarkOptimizer(b *testing.B) {
	onPaths(b, func(b *testing.B, dev kernels.Device) func() error {
		w := NewParams(dev, hf.NewDrafterConfig(tiny, 2, 8, 0, 2047, []int{1, 2, 4}).Shapes())
		g := w.Like()
		dev.Upload(g.Flat, kernelstest.Pattern(g.Flat.Len(), 5))
		o := NewOptimizer(dev, w, AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Clip: 1})
		return func() error {
			_, err := o.Step(g, 64, 1e-3)
			return err
		}
	})
}

// BenchmarkForward is the target up to its last tap on five documents of 250 tokens.
func BenchmarkForward(b *testing.B) {
	onPaths(b, func(b *testing.B, dev kernels.Device) func() error {
		taps := []int{1, 2, 4}
		m, err := NewTarget(dev, tiny, taps[2]+1, InitRandom(1))
		if err != nil {
			b.Fatal(err)
		}
		offsets, out := []int32{0, 250, 500, 750, 1000, 1250}, dev.Alloc(3*1250, 128)
		ids := kernelstest.Rows(1250, 2000, 1)
		return func() error { return m.Forward(ids, offsets, taps, out) }
	})
}

// BenchmarkVerify is the target's part of a round of speculative decoding: a block of 8 after 150 cached tokens.
func BenchmarkVerify(b *testing.B) {
	onPaths(b, func(b *testing.B, dev kernels.Device) func() error {
		m, err := NewTarget(dev, tiny, tiny.Layers, InitRandom(1))
		if err != nil {
			b.Fatal(err)
		}
		s, err := m.NewSession(200, []int{1, 2, 4})
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := s.Append(kernelstest.Rows(150, 2000, 1)); err != nil {
			b.Fatal(err)
		}
		ids := kernelstest.Rows(8, 2000, 2)
		return func() error {
			hidden, _, err := s.Append(ids)
			if err != nil {
				return err
			}
			dev.Argmax(hidden, m.Head)
			return s.Truncate(150)
		}
	})
}
