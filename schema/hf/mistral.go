package hf

import "errors"

// mistral is the dense Mistral decoder: a Llama without biases whose layers all slide if sliding_window is a number.
// (Facts: transformers, models/mistral.)
var mistral = family{architecture: "MistralForCausalLM", read: readMistral,
	tensors: func(g Geometry) []Shape { return denseTensors(g) }}

func readMistral(c *config) (decoder, error) {
	if c.AttentionBias {
		return decoder{}, errors.New("attention_bias: is not supported in this architecture")
	}
	g, err := c.geometry(defaults{headDim: quotient(c), maxPositions: 131072, theta: 10000})
	if err != nil {
		return decoder{}, err
	}
	window := 4096 // what an absent key means; null means none
	if c.SlidingWindow.given {
		window = or(c.SlidingWindow.value, 0)
	}
	if c.LayerTypes != nil {
		w, err := c.typedWindows(g.Layers, window)
		return decoder{g, w}, err
	}
	if window == 0 && c.SlidingWindow.value == nil {
		return decoder{Geometry: g}, nil
	}
	w := make([]int, g.Layers)
	for i := range w {
		w[i] = window
	}
	return decoder{g, w}, checkWindow(window)
}
