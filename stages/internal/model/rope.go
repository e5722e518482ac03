package model

import (
	"math"

	"penstock/kernels"
	"penstock/schema/hf"
)

// newRope returns the rotary frequencies of a geometry, scaled as it says.
func newRope(g hf.Geometry) kernels.Rope {
	r := kernels.NewRope(g.HeadDim, g.RopeTheta)
	switch s := g.Scaling; s.Kind {
	case hf.LinearRope:
		for i := range r.InvFreq {
			r.InvFreq[i] /= float32(s.Factor)
		}
	case hf.Llama3Rope:
		for i, f := range r.InvFreq {
			r.InvFreq[i] = llama3(f, s)
		}
	case hf.YarnRope:
		yarn(r.InvFreq, g)
		r.Factor = float32(s.Attention)
	}
	return r
}

// llama3 stretches slow frequencies, keeps fast ones and blends between. (Llama 3.1 model card; rule as in transformers.)
func llama3(f float32, s hf.RopeScaling) float32 {
	turns := float64(s.Original) * float64(f) / (2 * math.Pi)
	switch {
	case turns > s.HighFreq:
		return f
	case turns < s.LowFreq:
		return f / float32(s.Factor)
	}
	keep := float32((turns - s.LowFreq) / (s.HighFreq - s.LowFreq))
	return (1-keep)*f/float32(s.Factor) + keep*f
}

// yarn stretches frequencies along a ramp between those that turn BetaSlow and BetaFast times over the original length.
// (Peng et al., 2023, "NTK-by-parts".)
func yarn(inv []float32, g hf.Geometry) {
	s, dim := g.Scaling, float64(g.HeadDim)
	at := func(turns float64) float64 {
		return dim * math.Log(float64(s.Original)/(turns*2*math.Pi)) / (2 * math.Log(g.RopeTheta))
	}
	lo, hi := at(s.BetaFast), at(s.BetaSlow)
	if !s.Exact {
		lo, hi = math.Floor(lo), math.Ceil(hi)
	}
	lo, hi = max(lo, 0), min(hi, dim-1)
	if lo == hi {
		hi += 0.001
	}
	for i, f := range inv {
		stretch := float32(min(max((float64(i)-lo)/(hi-lo), 0), 1))
		inv[i] = f/float32(s.Factor)*stretch + f*(1-stretch)
	}
}
