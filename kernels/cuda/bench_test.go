//go:build cuda

package cuda

import (
	"fmt"
	"math"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

// rate runs an op of so many floating-point operations and reports how many a second it does.
func rate(b *testing.B, d *Device, flop float64, op func()) {
	op()
	if err := d.Sync(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		op()
		if err := d.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(flop*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
}

func benchGPU(b *testing.B) (*Device, func(rows, cols int) base.Tensor) {
	d, err := Open(0, base.Float32)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	seed := uint64(0)
	return d, func(rows, cols int) base.Tensor {
		seed++
		return kernelstest.New(d, rows, cols, kernelstest.Pattern(rows*cols, seed))
	}
}

func BenchmarkGemm(b *testing.B) {
	for _, s := range [][3]int{{4096, 4096, 4096}, {12288, 4096, 1024}, {16, 4096, 4096}} {
		b.Run(fmt.Sprintf("%d×%d×%d", s[0], s[1], s[2]), func(b *testing.B) {
			d, in := benchGPU(b)
			x, w, y := in(s[0], s[2]), in(s[1], s[2]), d.Alloc(s[0], s[1])
			rate(b, d, 2*float64(s[0])*float64(s[1])*float64(s[2]), func() { d.Gemm(y, x, w, false, true, 0) })
		})
	}
}

// BenchmarkCeiling is what the tensor cores give at best: products of bfloat16 with float32 sums, by cuBLAS, on data that is
// not zero. Run it for seconds: the first milliseconds are faster than what lasts.
func BenchmarkCeiling(b *testing.B) {
	const n = 8192
	d, err := Open(0, base.Float32)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close() })
	lib, err := openBLAS()
	if err != nil {
		b.Fatal(err)
	}
	gemmEx, err := purego.Dlsym(lib, "cublasGemmEx")
	if err != nil {
		b.Fatal(err)
	}
	half := func(seed uint64) base.Tensor { // two bfloat16 in each element
		v := kernelstest.Pattern(n*n, seed)
		pairs := make([]float32, n*n/2)
		for i := range pairs {
			pairs[i] = math.Float32frombits(math.Float32bits(v[2*i])>>16 | math.Float32bits(v[2*i+1])&0xFFFF0000)
		}
		return kernelstest.New(d, n, n/2, pairs)
	}
	x, w, y := half(1), half(2), d.Alloc(n, n/2)
	const bf16, compute32F, algo = 14, 68, ^uintptr(0) // CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT
	rate(b, d, 2*n*n*n, func() {
		d.enqueue(&call{"GemmEx", nil}, func() error {
			return d.blas.call("cublasGemmEx", gemmEx, d.blas.handle, 1, 0, n, n, n, uintptr(unsafe.Pointer(&factors[1])), w.Ptr, bf16, n,
				x.Ptr, bf16, n, uintptr(unsafe.Pointer(&factors[0])), y.Ptr, bf16, n, compute32F, algo)
		})
	})
}

// BenchmarkCausalAttention is one layer over two documents of 3,072 tokens with the heads of an 8B model.
func BenchmarkCausalAttention(b *testing.B) {
	const t, documents = 3072, 2
	d, in := benchGPU(b)
	h := base.Heads{Q: 32, KV: 8, Dim: 128, Scale: 0.09}
	n := t * documents
	q, k, v, o := in(n, h.Q*h.Dim), in(n, h.KV*h.Dim), in(n, h.KV*h.Dim), d.Alloc(n, h.Q*h.Dim)
	var segs []base.Segment
	for i := range int32(documents) {
		segs = append(segs, base.Segment{Q0: i * t, Q1: (i + 1) * t, K0: i * t, K1: (i + 1) * t})
	}
	rate(b, d, documents*4*float64(t)*float64(t+1)/2*float64(h.Q*h.Dim), func() { d.CausalAttention(o, q, k, v, segs, h) })
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
	o, lse := d.Alloc(n, width), d.Alloc(n, h.Q)
	forward := func() { d.BlockAttention(o, lse, q, kc, vc, kb, vb, blocks, size, h) }
	b.Run("forward", func(b *testing.B) { rate(b, d, 4*pairs*float64(width), forward) })
	b.Run("backward", func(b *testing.B) {
		dq, dkc, dvc, dkb, dvb := d.Alloc(n, width), d.Alloc(context, kv), d.Alloc(context, kv), d.Alloc(n, kv), d.Alloc(n, kv)
		forward()
		rate(b, d, 10*pairs*float64(width), func() {
			d.BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb, blocks, size, h)
		})
	})
}
