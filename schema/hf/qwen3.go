package hf

// qwen3 is the dense Qwen3 decoder: grouped heads, RMS norms on each query and key head, SwiGLU, rotary positions.
// (Facts: transformers, models/qwen3.)
var qwen3 = family{architecture: "Qwen3ForCausalLM", read: readQwen3,
	tensors: func(g Geometry) []Shape { return denseTensors(g, QNorm, KNorm) }}

const qwen3HeadDim = 128 // what the qwen3 model type means by an absent head_dim

func readQwen3(c *config) (decoder, error) {
	g, err := c.geometry(defaults{headDim: qwen3HeadDim, maxPositions: 32768})
	if err != nil {
		return decoder{}, err
	}
	w, err := c.qwenWindows(g.Layers)
	return decoder{g, w}, err
}
