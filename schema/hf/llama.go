package hf

import (
	"errors"
	"fmt"
)

// llama is the dense decoder of Llama 2 and 3: no norms on heads, biases only with attention_bias.
// (Facts: transformers, models/llama.)
var llama = family{architecture: "LlamaForCausalLM", read: readLlama,
	tensors: func(g Geometry) []Shape { return denseTensors(g) }}

func readLlama(c *config) (decoder, error) {
	g, err := c.geometry(defaults{headDim: quotient(c), maxPositions: 2048, theta: 10000})
	errs := []error{err}
	if c.MLPBias {
		errs = append(errs, errors.New("mlp_bias: is not supported"))
	}
	if n := or(c.PretrainingTP, 1); n != 1 {
		errs = append(errs, fmt.Errorf("pretraining_tp: %d is not supported, only 1 is", n))
	}
	for i, t := range c.LayerTypes {
		if t != FullAttention {
			errs = append(errs, fmt.Errorf("layer_types[%d]: %q is not supported in this architecture, only %s is", i, t, FullAttention))
			break
		}
	}
	return decoder{Geometry: g}, errors.Join(errs...)
}
