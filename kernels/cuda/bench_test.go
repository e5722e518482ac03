//go:build cuda

package cuda

import (
	"fmt"
	"testing"
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

const tera = "TFLOP/s"

// rate runs an op that does so much of something and reports how much it does a second.
func rate(b *testing.B, d *Device, amount float64, unit string, op func()) {
	const together = 10 // ops of which the host waits for the last
	run := func(n int) {
		for range n {
			op()
		}
		if err := d.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	run(1)
	for b.Loop() {
		run(together)
	}
	b.ReportMetric(together*amount*float64(b.N)/b.Elapsed().Seconds(), unit)
}

// benchGPU opens the first GPU for bfloat16.
func benchGPU(b *testing.B) (*Device, func(rows, cols int) base.Tensor) {
	d, err := Open(0, base.BFloat16)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	seed := uint64(0)
	return d, func(rows, cols int) base.Tensor {
		seed++
		t, n := d.AllocHalf(rows, cols), min(rows, 1<<20/cols)
		d.Upload(t.RowRange(0, n), kernelstest.Pattern(n*cols, seed))
		for n < rows { // once more as much
			k := min(n, rows-n)
			d.Copy(t.RowRange(n, n+k), t.RowRange(0, k))
			n += k
		}
		return t
	}
}

// BenchmarkGemm is what the tensor cores give, in the shapes of an 8B model: forward (NT), gradients of inputs (NN) and of
// weights (TN, added up in float32), and logits. Run it for seconds: the first milliseconds are faster than what lasts.
func BenchmarkGemm(b *testing.B) {
	for _, s := range []struct {
		m, n, k int
		ta, tb  bool
		beta    float32
		to      base.Type
	}{
		{8192, 8192, 8192, false, true, 0, base.BFloat16},
		{12288, 12288, 4096, false, true, 0, base.BFloat16},
		{12288, 4096, 12288, false, true, 1, base.BFloat16},
		{12288, 4096, 4096, false, true, 0, base.BFloat16},
		{12288, 1024, 4096, false, true, 0, base.BFloat16},
		{9999, 12288, 4096, false, true, 0, base.BFloat16},
		{16, 4096, 4096, false, true, 0, base.BFloat16},
		{8192, 4096, 12288, false, false, 0, base.BFloat16},
		{8192, 12288, 4096, false, false, 0, base.BFloat16},
		{12288, 4096, 8192, true, false, 1, base.Float32},
		{4096, 12288, 8192, true, false, 1, base.Float32},
		{1024, 4096, 12288, true, false, 1, base.Float32},
		{2048, 151936, 4096, false, true, 0, base.Float32},
	} {
		order := map[bool]string{false: "N", true: "T"}
		b.Run(fmt.Sprintf("%d×%d×%d_%s%s_%v", s.m, s.n, s.k, order[s.ta], order[s.tb], s.to), func(b *testing.B) {
			d, in := benchGPU(b)
			x, w, y := in(s.m, s.k), in(s.k, s.n), d.AllocHalf(s.m, s.n)
			if s.ta {
				x = x.Reshape(s.k, s.m)
			}
			if s.tb {
				w = w.Reshape(s.n, s.k)
			}
			if s.to == base.Float32 {
				y = d.Alloc(s.m, s.n)
			}
			rate(b, d, 2*float64(s.m)*float64(s.n)*float64(s.k)/1e12, tera, func() { d.Gemm(y, x, w, s.ta, s.tb, s.beta) })
		})
	}
}

// BenchmarkGemmCall is what it costs to enqueue a product: of a shape that comes again, and of one that is new.
func BenchmarkGemmCall(b *testing.B) {
	const rows, size = 16384, 64
	d, in := benchGPU(b)
	x, w, y := in(rows, size), in(size, size), d.AllocHalf(rows, size)
	product := func(n int) { d.Gemm(y.RowRange(0, n), x.RowRange(0, n), w, false, true, 0) }
	b.Run("again", func(b *testing.B) { rate(b, d, 1e-3, "thousand/s", func() { product(64) }) })
	b.Run("new", func(b *testing.B) {
		n := 0
		rate(b, d, 1e-3, "thousand/s", func() {
			n = n%rows + 1
			product(n)
		})
	})
}

// BenchmarkMemory is ops that memory bounds, at the shapes of an 8B model, in GB/s of what they must read and write.
func BenchmarkMemory(b *testing.B) {
	const t, h, i, q, heads, dim = 12288, 4096, 12288, 4096, 32, 128
	d, in := benchGPU(b)
	x, y, z, w, r := in(t, h), in(t, h), in(t, h), d.Alloc(1, h), d.Alloc(t, 1)
	gate, up, act := in(t, i), in(t, i), in(t, i)
	pos, rope, hr := d.Index(kernelstest.Rows(t, 3072, 1)), base.NewRope(dim, 1e6), d.Alloc(t, heads)
	wd, none := d.Alloc(1, dim), base.Tensor{}
	m, v, g, m32, half := d.Alloc(t, h), d.Alloc(t, h), d.Alloc(t, h), d.Alloc(t, h), d.AllocHalf(t, h)
	const row, wide = 2 * t * h, 2 * t * i
	for _, c := range []struct {
		name  string
		bytes float64
		op    func()
	}{
		{"Copy", 2 * row, func() { d.Copy(x, y) }},
		{"Add", 3 * row, func() { d.Add(x, y) }},
		{"RMSNorm", 2 * row, func() { d.RMSNorm(x, y, w, r, 1e-6) }},
		{"RMSNormBackward", 6 * row, func() { d.RMSNormBackward(x, w, y, z, w, r, true) }},
		{"HeadNormRope", 2 * row, func() { d.HeadNormRope(x, y, wd, none, heads, pos, rope, 1e-6) }},
		{"HeadNormRopeBackward", 3 * row, func() { d.HeadNormRopeBackward(x, wd, y, z, wd, hr, heads, pos, rope) }},
		{"SwiGLU", 3 * wide, func() { d.SwiGLU(act, gate, up) }},
		{"SwiGLUBackward", 5 * wide, func() { d.SwiGLUBackward(gate, up, act, gate, up) }},
		{"AdamW", 15 * row, func() { d.AdamW(m32, half, m, v, g, base.Adam{Step: 1}) }},
		{"SumSquares", 2 * row, func() { d.SumSquares(g) }},
		{"CheckFeatures", row, func() { d.CheckFeatures(x) }},
		{"CheckFeatures of float32", 2 * row, func() { d.CheckFeatures(g) }},
	} {
		b.Run(c.name, func(b *testing.B) { rate(b, d, c.bytes/1e9, "GB/s", c.op) })
	}
}

// BenchmarkHeadLoss is a chunk of rows with a vocabulary of 151,936.
func BenchmarkHeadLoss(b *testing.B) {
	const rows, h, vocab = logitRows, 4096, 151936
	d, in := benchGPU(b)
	x, dh, head, w := in(rows, h), d.AllocHalf(rows, h), d.AllocHalf(vocab, h), d.Alloc(rows, 1)
	labels := d.Index(kernelstest.Rows(rows, vocab, 1))
	ce, hit := d.Alloc(rows, 1), d.Alloc(rows, 1)
	rate(b, d, 4*rows*h*vocab/1e12, tera, func() { d.HeadLoss(ce, hit, dh, x, head, w, labels) })
}

// BenchmarkCausalAttention is one layer over two documents of 3,072 tokens with the heads of an 8B model.
func BenchmarkCausalAttention(b *testing.B) {
	const t, documents = 3072, 2
	d, in := benchGPU(b)
	h := base.Heads{Q: 32, KV: 8, Dim: 128, Scale: 0.09}
	n := t * documents
	q, k, v, o := in(n, h.Q*h.Dim), in(n, h.KV*h.Dim), in(n, h.KV*h.Dim), d.AllocHalf(n, h.Q*h.Dim)
	var segs []base.Segment
	for i := range int32(documents) {
		segs = append(segs, base.Segment{Q0: i * t, Q1: (i + 1) * t, K0: i * t, K1: (i + 1) * t})
	}
	rate(b, d, documents*4*float64(t)*float64(t+1)/2*float64(h.Q*h.Dim)/1e12, tera, func() { d.CausalAttention(o, q, k, v, segs, h) })
}

// BenchmarkBlockAttention is one layer of a drafter over a document of 3,072 tokens with 128 blocks of 16.
func BenchmarkBlockAttention(b *testing.B) {
	const context, size, count = 3072, 16, 128
	d, in := benchGPU(b)
	h := base.Heads{Q: 32, KV: 8, Dim: 128, Scale: 0.09}
	n, width, kv := count*size, h.Q*h.Dim, h.KV*h.Dim
	var blocks []base.Block
	pairs := 0.0
	for i := range int32(count) {
		anchor := 1200 + i*14
		blocks = append(blocks, base.Block{Anchor: anchor})
		pairs += float64(size) * float64(anchor+size)
	}
	q, kc, vc, kb, vb, do := in(n, width), in(context, kv), in(context, kv), in(n, kv), in(n, kv), in(n, width)
	o, lse := d.AllocHalf(n, width), d.Alloc(n, h.Q)
	forward := func() { d.BlockAttention(o, lse, q, kc, vc, kb, vb, blocks, size, h) }
	b.Run("forward", func(b *testing.B) { rate(b, d, 4*pairs*float64(width)/1e12, tera, forward) })
	b.Run("backward", func(b *testing.B) {
		dq, dkc, dvc, dkb, dvb := d.AllocHalf(n, width), d.AllocHalf(context, kv), d.AllocHalf(context, kv), d.AllocHalf(n, kv), d.AllocHalf(n, kv)
		forward()
		rate(b, d, 10*pairs*float64(width)/1e12, tera, func() {
			d.BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb, blocks, size, h)
		})
	})
}

// BenchmarkDownload is a device's memory on its way to the host in chunks of 8 MB, as a checkpoint reads it: into the same memory
// each time, into fresh memory, and into page-locked memory.
func BenchmarkDownload(b *testing.B) {
	const values = 1 << 21
	for _, to := range []string{"kept", "fresh", "page-locked"} {
		b.Run(to, func(b *testing.B) {
			d, _ := benchGPU(b)
			x, host := d.Alloc(1, values), make([]float32, values)
			if to == "page-locked" {
				err := d.wait(func() error {
					p, err := allocPinned(4 * values)
					if err == nil {
						d.onClose(func() error { return cu.MemFreeHost(p) })
						host = unsafe.Slice((*float32)(p), values)
					}
					return err
				})
				if err != nil {
					b.Fatal(err)
				}
			}
			rate(b, d, 4*values/1e9, "GB/s", func() {
				if to == "fresh" {
					host = make([]float32, values)
				}
				d.Download(host, x)
			})
		})
	}
}
