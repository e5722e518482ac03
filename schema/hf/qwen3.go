package hf

import (
	"errors"
	"fmt"
)

// qwen3 is the dense Qwen3 decoder: grouped heads, RMS norms on each query and key head, SwiGLU, rotary positions.
// (Facts: transformers, models/qwen3.)
var qwen3 = family{architecture: "Qwen3ForCausalLM", read: readQwen3, tensors: qwen3Tensors}

const qwen3HeadDim = 128 // what the qwen3 model type means by an absent head_dim

func readQwen3(c *config) (Geometry, error) {
	g, err := c.geometry(qwen3HeadDim)
	errs := []error{err}
	for i, t := range c.LayerTypes {
		if t != "full_attention" {
			errs = append(errs, fmt.Errorf("layer_types[%d]: %q is not supported in a target, only full_attention is", i, t))
			break
		}
	}
	if c.LayerTypes != nil && len(c.LayerTypes) != g.Layers {
		errs = append(errs, fmt.Errorf("layer_types: has %d entries for %d layers", len(c.LayerTypes), g.Layers))
	}
	if c.LayerTypes == nil && c.UseSliding && c.SlidingWindow != nil && or(c.MaxWindowLayers, 28) < g.Layers {
		errs = append(errs, errors.New("use_sliding_window: sliding windows are not supported in a target"))
	}
	return g, errors.Join(errs...)
}

func qwen3Tensors(g Geometry) []Shape {
	s := []Shape{{"model." + Embedding, []int{g.VocabSize, g.HiddenSize}}, {"model." + FinalNorm, []int{g.HiddenSize}}}
	for i := range g.Layers {
		s = append(s, qwen3Layer("model.", i, g)...)
	}
	return s
}

// qwen3Layer lists one layer's tensors; a drafter's layers have the same ones.
func qwen3Layer(prefix string, i int, g Geometry) []Shape {
	h, q, kv := g.HiddenSize, g.QSize(), g.KVSize()
	parts := []struct {
		part Part
		dims []int
	}{
		{InputNorm, []int{h}}, {PostNorm, []int{h}},
		{QProj, []int{q, h}}, {KProj, []int{kv, h}}, {VProj, []int{kv, h}}, {OProj, []int{h, q}},
		{QNorm, []int{g.HeadDim}}, {KNorm, []int{g.HeadDim}},
		{GateProj, []int{g.IntermediateSize, h}}, {UpProj, []int{g.IntermediateSize, h}}, {DownProj, []int{h, g.IntermediateSize}},
		{QBias, []int{q}}, {KBias, []int{kv}}, {VBias, []int{kv}}, {OBias, []int{h}},
	}
	if !g.AttentionBias {
		parts = parts[:len(parts)-4]
	}
	shapes := make([]Shape, len(parts))
	for n, p := range parts {
		shapes[n] = Shape{prefix + LayerName(i, p.part), p.dims}
	}
	return shapes
}
