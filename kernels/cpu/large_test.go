package cpu

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"testing"

	"penstock/kernels"
	"penstock/kernels/gemm"
	"penstock/kernels/kernelstest"
)

// ops calls every op once, at shapes that are shared among goroutines, and keeps what they write.
type ops struct {
	dev  kernels.Device
	seed uint64
	outs map[string]kernels.Tensor // by the op's name and the operand's
	op   map[string]string         // the op of each
}

func (o *ops) in(rows, cols int) kernels.Tensor {
	o.seed++
	return kernelstest.New(o.dev, rows, cols, kernelstest.Pattern(rows*cols, o.seed))
}

// out is an operand that op writes or changes.
func (o *ops) out(op, name string, rows, cols int) kernels.Tensor {
	t := o.in(rows, cols)
	o.outs[op+" "+name], o.op[op+" "+name] = t, op
	return t
}

func (o *ops) value(op, name string, v ...float32) {
	o.outs[op+" "+name], o.op[op+" "+name] = kernels.Host(1, len(v), v), op
}

// callAll runs every op of the table.
func callAll(d kernels.Device) *ops {
	o := &ops{dev: d, outs: map[string]kernels.Tensor{}, op: map[string]string{}}
	const rows, cols = 700, 130
	d.Zero(o.out("Zero", "t", rows, cols))
	d.Copy(o.out("Copy", "dst", rows, cols), o.in(rows, cols))
	d.CopyCols(o.out("CopyCols", "dst", rows, cols), 5, o.in(rows, 100))
	d.Add(o.out("Add", "dst", rows, cols), o.in(rows, cols))
	d.Scale(o.out("Scale", "t", rows, cols), 0.3)
	d.ScaleRows(o.out("ScaleRows", "t", rows, cols), o.in(rows, 1))
	d.Gather(o.out("Gather", "out", rows, cols), o.in(50, cols), d.Index(kernelstest.Rows(rows, 50, 1)))
	d.Scatter(o.out("Scatter", "out", rows, cols), o.in(400, cols), d.Index(kernelstest.Distinct(400, rows)))
	d.Gemm(o.out("Gemm", "c", 300, 200), o.in(300, 500), o.in(200, 500), false, true, 0)
	d.Gemm(o.out("Gemm", "added", 300, 200), o.in(500, 300), o.in(500, 200), true, false, 1)
	d.SwiGLU(o.out("SwiGLU", "out", rows, cols), o.in(rows, cols), o.in(rows, cols))
	d.SwiGLUBackward(o.out("SwiGLUBackward", "dgate", rows, cols), o.out("SwiGLUBackward", "dup", rows, cols), o.in(rows, cols), o.in(rows, cols), o.in(rows, cols))
	d.AddBias(o.out("AddBias", "x", rows, cols), o.in(1, cols))
	o.norms(rows)
	o.attention()
	o.loss()

	d.AdamW(o.out("AdamW", "w", rows, cols), o.out("AdamW", "half", rows, cols), o.out("AdamW", "m", rows, cols), squared(o.out("AdamW", "v", rows, cols)), o.in(rows, cols),
		kernels.Adam{LR: 1e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Decay: 0.1, Step: 3, GradScale: 0.5})
	o.value("SumSquares", "sum", float32(d.SumSquares(o.in(rows, cols))))
	f := d.CheckFeatures(o.in(rows, cols))
	o.value("CheckFeatures", "sum", float32(f.Checksum>>40), float32(f.Checksum&0xFFFFFF))
	return o
}

// squared makes t a second moment.
func squared(t kernels.Tensor) kernels.Tensor {
	for i, v := range t.F32 {
		t.F32[i] = v * v
	}
	return t
}

func (o *ops) norms(rows int) {
	const heads, dim = 3, 64
	d, cols := o.dev, heads*dim
	rope := kernels.NewRope(dim, 1e4)
	pos := d.Index(kernelstest.Rows(rows, 900, 2))
	x, w, rstd := o.in(rows, cols), o.in(1, cols), o.out("RMSNorm", "rstd", rows, 1)
	d.RMSNorm(o.out("RMSNorm", "out", rows, cols), x, w, rstd, 1e-6)
	d.RMSNormBackward(o.out("RMSNormBackward", "dx", rows, cols), o.out("RMSNormBackward", "dw", 1, cols), o.in(rows, cols), x, w, rstd, true)
	wh, rh := o.in(1, dim), o.out("HeadNormRope", "rstd", rows, heads)
	d.HeadNormRope(o.out("HeadNormRope", "out", rows, cols), x, wh, rh, heads, pos, rope, 1e-6)
	d.HeadNormRopeBackward(o.out("HeadNormRopeBackward", "dx", rows, cols), o.out("HeadNormRopeBackward", "dw", 1, dim), o.in(rows, cols), x, wh, rh, heads, pos, rope)
}

func (o *ops) attention() {
	d := o.dev
	h := kernels.Heads{Q: 4, KV: 2, Dim: 32, Scale: 0.18}
	segs := []kernels.Segment{{Q0: 0, Q1: 150, K0: 0, K1: 150}, {Q0: 150, Q1: 190, K0: 150, K1: 400}}
	d.CausalAttention(o.out("CausalAttention", "o", 190, 128), o.in(190, 128), o.in(400, 64), o.in(400, 64), segs, h)

	const size, perDoc, context = 8, 20, 600
	var blocks []kernels.Block
	for start := int32(0); start < context; start += 200 {
		for i := range int32(perDoc) {
			blocks = append(blocks, kernels.Block{Start: start, Anchor: start + 9*i})
		}
	}
	n := len(blocks) * size
	for _, window := range []int{0, 50} {
		h.Window = window
		name := func(s string) string { return fmt.Sprintf("%s window %d", s, window) }
		out := func(op, s string, rows, cols int) kernels.Tensor { return o.out(op, name(s), rows, cols) }
		q, kc, vc, kb, vb := o.in(n, 128), o.in(context, 64), o.in(context, 64), o.in(n, 64), o.in(n, 64)
		out1, lse := out("BlockAttention", "o", n, 128), out("BlockAttention", "lse", n, 4)
		d.BlockAttention(out1, lse, q, kc, vc, kb, vb, blocks, size, h)
		const back = "BlockAttentionBackward"
		d.BlockAttentionBackward(out(back, "dq", n, 128), out(back, "dkc", context, 64), out(back, "dvc", context, 64), out(back, "dkb", n, 64),
			out(back, "dvb", n, 64), o.in(n, 128), out1, lse, q, kc, vc, kb, vb, blocks, size, h)
	}
}

func (o *ops) loss() {
	const rows, hidden, vocab = 200, 96, 1500
	h, head, labels := o.in(rows, hidden), o.in(vocab, hidden), o.dev.Index(kernelstest.Rows(rows, vocab, 3))
	o.dev.HeadLoss(o.out("HeadLoss", "ce", rows, 1), o.out("HeadLoss", "hit", rows, 1), o.out("HeadLoss", "dh", rows, hidden), h, head, o.in(rows, 1), labels)
	var top []float32
	for _, i := range o.dev.Argmax(h, head) {
		top = append(top, float32(i))
	}
	o.value("Argmax", "top", top...)
}

// TestLargeShapes compares every op with Ref where work is shared, and demands the same bits for any number of goroutines
// and processors.
func TestLargeShapes(t *testing.T) {
	want := callAll(&kernels.Ref{})
	for _, op := range kernels.OpList {
		if !slices.Contains(slices.Collect(maps.Values(want.op)), op.Name) {
			t.Errorf("op %s is not called", op.Name)
		}
	}
	for _, path := range gemm.Paths() {
		t.Run(path, func(t *testing.T) {
			one := callOn(t, path, 1, 1)
			for name, w := range want.outs {
				tolerance := 0.0
				for _, op := range kernels.OpList {
					if op.Name == want.op[name] {
						tolerance = op.Tolerance
					}
				}
				if e := kernelstest.MaxRel(one.outs[name].F32, w.F32); !(e <= tolerance) {
					t.Errorf("%s is off by %.3g of its maximum, limit %.3g", name, e, tolerance)
				}
			}
			for _, c := range []struct{ threads, processors int }{{2, 1}, {2, 2}, {5, 2}, {1, 2}} {
				got := callOn(t, path, c.threads, c.processors)
				for name, w := range one.outs {
					if !slices.EqualFunc(got.outs[name].F32, w.F32, sameBits) {
						t.Errorf("%s: %d goroutines on %d processors change the result", name, c.threads, c.processors)
					}
				}
			}
		})
	}
}

func callOn(t *testing.T, path string, threads, processors int) *ops {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	d, err := New(Options{Threads: threads, Gemm: path})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	return callAll(d)
}

func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
