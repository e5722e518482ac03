package model

import (
	"math"

	"penstock/kernels"
	"penstock/schema/hf"
)

// layer is one decoder layer's tensors, [out, in] as they are stored, or their gradients. The weights of products are of the
// device's half type, the others, and all gradients, of float32. A nil tensor is a part that the model does not have.
type layer struct {
	inputNorm, postNorm        kernels.Tensor
	q, k, v, o                 kernels.Tensor
	qBias, kBias, vBias, oBias kernels.Tensor
	qNorm, kNorm               kernels.Tensor
	gate, up, down             kernels.Tensor
}

// newLayer takes the weights of products from one place and norms and biases from another.
func newLayer(product, vector func(hf.Part) kernels.Tensor) layer {
	return layer{
		inputNorm: vector(hf.InputNorm), postNorm: vector(hf.PostNorm),
		q: product(hf.QProj), k: product(hf.KProj), v: product(hf.VProj), o: product(hf.OProj),
		qBias: vector(hf.QBias), kBias: vector(hf.KBias), vBias: vector(hf.VBias), oBias: vector(hf.OBias),
		qNorm: vector(hf.QNorm), kNorm: vector(hf.KNorm),
		gate: product(hf.GateProj), up: product(hf.UpProj), down: product(hf.DownProj),
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
	y := d.arena.Half(x.Rows, x.Cols)
	d.dev.RMSNorm(y, x, w, rstd, d.eps())
	return y
}
