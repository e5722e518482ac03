package hf

import (
	"errors"
	"fmt"
)

// decoder is a target's size with what its layers may differ in.
type decoder struct {
	Geometry
	windows []int // sliding window of each layer, 0 for full attention; nil if no layer has one
}

// denseTensors lists the tensors of a dense decoder: embedding, norm and, of each layer, the common parts, own and the
// biases that own leaves to attention_bias.
func denseTensors(g Geometry, own ...Part) []Shape {
	s := []Shape{{"model." + Embedding, []int{g.VocabSize, g.HiddenSize}}, {"model." + FinalNorm, []int{g.HiddenSize}}}
	for i := range g.Layers {
		s = append(s, denseLayer("model.", i, g, own...)...)
	}
	return s
}

// denseLayer lists one layer's tensors: the common parts, the family's own ones, and with attention_bias all four biases.
func denseLayer(prefix string, i int, g Geometry, own ...Part) []Shape {
	parts := []Part{InputNorm, PostNorm, QProj, KProj, VProj, OProj, GateProj, UpProj, DownProj}
	parts = append(parts, own...)
	if g.AttentionBias {
		parts = append(parts, QBias, KBias, VBias, OBias)
	}
	shapes := make([]Shape, len(parts))
	for n, p := range parts {
		shapes[n] = Shape{prefix + LayerName(i, p), g.partDims(p)}
	}
	return shapes
}

// partDims is the shape of a part of a layer.
func (g Geometry) partDims(p Part) []int {
	h, q, kv, wide := g.HiddenSize, g.QSize(), g.KVSize(), g.IntermediateSize
	return map[Part][]int{
		InputNorm: {h}, PostNorm: {h}, QNorm: {g.HeadDim}, KNorm: {g.HeadDim},
		QProj: {q, h}, KProj: {kv, h}, VProj: {kv, h}, OProj: {h, q}, QBias: {q}, KBias: {kv}, VBias: {kv}, OBias: {h},
		GateProj: {wide, h}, UpProj: {wide, h}, DownProj: {h, wide},
	}[p]
}

// quotient is the head size that hidden_size and num_attention_heads give.
func quotient(c *config) int {
	if or(c.Heads, 0) < 1 {
		return 1
	}
	return or(c.Hidden, 0) / *c.Heads
}

// qwenWindows reads the sliding windows of Qwen configurations: layer_types, or all layers from max_window_layers on, and
// neither without use_sliding_window.
func (c *config) qwenWindows(layers int) ([]int, error) {
	window := 0
	if c.UseSliding && c.SlidingWindow.value != nil {
		window = *c.SlidingWindow.value
	}
	if c.LayerTypes != nil {
		return c.typedWindows(layers, window)
	}
	first := or(c.MaxWindowLayers, 28)
	if window == 0 || first >= layers {
		return nil, nil
	}
	w := make([]int, max(layers, 0))
	for i := max(first, 0); i < len(w); i++ {
		w[i] = window
	}
	return w, checkWindow(window)
}

// typedWindows reads layer_types.
func (c *config) typedWindows(layers, window int) ([]int, error) {
	if len(c.LayerTypes) != layers {
		return nil, fmt.Errorf("layer_types: has %d entries for %d layers", len(c.LayerTypes), layers)
	}
	w, sliding := make([]int, layers), false
	for i, t := range c.LayerTypes {
		switch t {
		case FullAttention:
		case SlidingAttention:
			w[i], sliding = window, true
		default:
			return nil, fmt.Errorf("layer_types[%d]: %q is not supported in a target, only %s and %s are", i, t, FullAttention, SlidingAttention)
		}
	}
	if !sliding {
		return nil, nil
	}
	return w, checkWindow(window)
}

func checkWindow(window int) error {
	if window < 1 || window > maxSize {
		return errors.New("sliding_window: is missing or below 1, or use_sliding_window is not set, but layers slide")
	}
	return nil
}
