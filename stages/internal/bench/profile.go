package bench

import (
	"time"

	"penstock/kernels"
)

// profiler is a device that waits after every op and adds up what ops of a kind take: slower by some ten microseconds an op
// than the device itself.
type profiler struct {
	kernels.Device
	on      bool
	one     kernels.Tensor
	host    []float32
	seconds map[string]float64
}

func newProfiler(dev kernels.Device) *profiler {
	return &profiler{Device: dev, one: dev.Alloc(1, 1), host: make([]float32, 1), seconds: map[string]float64{}}
}

// begin returns what ends an op. A download waits for the work before it and, unlike Sync, leaves indices valid.
func (p *profiler) begin(op string) func() {
	if !p.on {
		return func() {}
	}
	p.Download(p.host, p.one)
	began := time.Now()
	return func() {
		p.Download(p.host, p.one)
		p.seconds[op] += time.Since(began).Seconds()
	}
}

func (p *profiler) Zero(t kernels.Tensor) {
	defer p.begin("Zero")()
	p.Device.Zero(t)
}

func (p *profiler) Copy(dst, src kernels.Tensor) {
	defer p.begin("Copy")()
	p.Device.Copy(dst, src)
}

func (p *profiler) Add(dst, src kernels.Tensor) {
	defer p.begin("Add")()
	p.Device.Add(dst, src)
}

func (p *profiler) Gather(out, table kernels.Tensor, rows kernels.Index) {
	defer p.begin("Gather")()
	p.Device.Gather(out, table, rows)
}

func (p *profiler) Scatter(out, x kernels.Tensor, rows kernels.Index) {
	defer p.begin("Scatter")()
	p.Device.Scatter(out, x, rows)
}

func (p *profiler) Gemm(c, a, b kernels.Tensor, ta, tb bool, beta float32) {
	defer p.begin("Gemm")()
	p.Device.Gemm(c, a, b, ta, tb, beta)
}

func (p *profiler) SwiGLU(out, gate, up kernels.Tensor) {
	defer p.begin("SwiGLU")()
	p.Device.SwiGLU(out, gate, up)
}

func (p *profiler) SwiGLUBackward(dgate, dup, dout, gate, up kernels.Tensor) {
	defer p.begin("SwiGLUBackward")()
	p.Device.SwiGLUBackward(dgate, dup, dout, gate, up)
}

func (p *profiler) RMSNorm(out, x, w, rstd kernels.Tensor, eps float32) {
	defer p.begin("RMSNorm")()
	p.Device.RMSNorm(out, x, w, rstd, eps)
}

func (p *profiler) RMSNormBackward(dx, dw, dout, x, w, rstd kernels.Tensor, accumulate bool) {
	defer p.begin("RMSNormBackward")()
	p.Device.RMSNormBackward(dx, dw, dout, x, w, rstd, accumulate)
}

func (p *profiler) HeadNormRope(out, x, w, rstd kernels.Tensor, heads int, pos kernels.Index, rope kernels.Rope, eps float32) {
	defer p.begin("HeadNormRope")()
	p.Device.HeadNormRope(out, x, w, rstd, heads, pos, rope, eps)
}

func (p *profiler) HeadNormRopeBackward(dx, dw, dout, x, w, rstd kernels.Tensor, heads int, pos kernels.Index, rope kernels.Rope) {
	defer p.begin("HeadNormRopeBackward")()
	p.Device.HeadNormRopeBackward(dx, dw, dout, x, w, rstd, heads, pos, rope)
}

func (p *profiler) CausalAttention(o, q, k, v kernels.Tensor, segs []kernels.Segment, h kernels.Heads) {
	defer p.begin("CausalAttention")()
	p.Device.CausalAttention(o, q, k, v, segs, h)
}

func (p *profiler) BlockAttention(o, lse, q, kc, vc, kb, vb kernels.Tensor, blocks []kernels.Block, size int, h kernels.Heads) {
	defer p.begin("BlockAttention")()
	p.Device.BlockAttention(o, lse, q, kc, vc, kb, vb, blocks, size, h)
}

func (p *profiler) BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb kernels.Tensor, blocks []kernels.Block, size int, h kernels.Heads) {
	defer p.begin("BlockAttentionBackward")()
	p.Device.BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb, blocks, size, h)
}

func (p *profiler) HeadLoss(ce, hit, dh, h, head, weight kernels.Tensor, labels kernels.Index) {
	defer p.begin("HeadLoss")()
	p.Device.HeadLoss(ce, hit, dh, h, head, weight, labels)
}

func (p *profiler) SumSquares(t kernels.Tensor) float64 {
	defer p.begin("SumSquares")()
	return p.Device.SumSquares(t)
}

func (p *profiler) AdamW(w, half, m, v, g kernels.Tensor, a kernels.Adam) {
	defer p.begin("AdamW")()
	p.Device.AdamW(w, half, m, v, g, a)
}
