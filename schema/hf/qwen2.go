package hf

import "errors"

// qwen2 is the dense decoder of Qwen2 and Qwen2.5: biases on queries, keys and values whatever the configuration says, no
// norms on heads. (Facts: transformers, models/qwen2.)
var qwen2 = family{architecture: "Qwen2ForCausalLM", read: readQwen2,
	tensors: func(g Geometry) []Shape { return denseTensors(g, QBias, KBias, VBias) }}

func readQwen2(c *config) (decoder, error) {
	if c.AttentionBias {
		return decoder{}, errors.New("attention_bias: is not a key of this architecture, whose queries, keys and values always have biases")
	}
	g, err := c.geometry(defaults{headDim: quotient(c), maxPositions: 32768, theta: 10000})
	if err != nil {
		return decoder{}, err
	}
	w, err := c.qwenWindows(g.Layers)
	return decoder{g, w}, err
}
