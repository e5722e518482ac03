package model

import (
	"math"

	"penstock/kernels"
	"penstock/schema/hf"
)

// layer is one decoder layer's tensors, [out, in] as they are stored, or their gradients.
// A nil tensor is a part that the model does not have.
type layer struct {
	inputNorm, postNorm        kernels.Tensor
	q, k, v, o                 kernels.Tensor
	qBias, kBias, vBias, oBias kernels.Tensor
	qNorm, kNorm               kernels.Tensor
	gate, up, down             kernels.Tensor
}

func newLayer(get func(hf.Part) kernels.Tensor) layer {
	return layer{
		inputNorm: get(hf.InputNorm), postNorm: get(hf.PostNorm),
		q: get(hf.QProj), k: get(hf.KProj), v: get(hf.VProj), o: get(hf.OProj),
		qBias: get(hf.QBias), kBias: get(hf.KBias), vBias: get(hf.VBias), oBias: get(hf.OBias),
		qNorm: get(hf.QNorm), kNorm: get(hf.KNorm),
		gate: get(hf.GateProj), up: get(hf.UpProj), down: get(hf.DownProj),
	}
}

// decoder is what target and drafter layers share: the device, scratch memory and the geometry.
type decoder struct {
	dev   kernels.Device
	arena *kernels.Arena
	geo   hf.Geometry
	rope  kernels.Rope
}

func newDecoder(dev kernels.Device, g hf.Geometry) decoder {
	return decoder{dev: dev, arena: kernels.NewArena(dev), geo: g, rope: newRope(g)}
}

func (d *decoder) heads(window int) kernels.Heads {
	return kernels.Heads{Q: d.geo.Heads, KV: d.geo.KVHeads, Dim: d.geo.HeadDim,
		Scale: float32(1 / math.Sqrt(float64(d.geo.HeadDim))), Window: window}
}

func (d *decoder) eps() float32 { return float32(d.geo.RMSNormEps) }

// linear: y = x·wᵀ + bias.
func (d *decoder) linear(y, x, w, bias kernels.Tensor) {
	d.dev.Gemm(y, x, w, false, true, 0)
	if !bias.IsNil() {
		d.dev.AddBias(y, bias)
	}
}

// residual: y += x·wᵀ + bias.
func (d *decoder) residual(y, x, w, bias kernels.Tensor) {
	d.dev.Gemm(y, x, w, false, true, 1)
	if !bias.IsNil() {
		d.dev.AddBias(y, bias)
	}
}

// normed returns RMSNorm(x) in new scratch memory.
func (d *decoder) normed(x, w, rstd kernels.Tensor) kernels.Tensor {
	y := d.arena.Get(x.Rows, x.Cols)
	d.dev.RMSNorm(y, x, w, rstd, d.eps())
	return y
}
