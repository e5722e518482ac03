package hf

import (
	"fmt"

	"penstock/schema/safetensors"
)

// Parts of a layer: Part says the tensor's name after "layers.N.".
type Part string

// The parts of a layer with their shapes; biases exist only with attention_bias, head norms only where the family has them.
const (
	InputNorm Part = "input_layernorm.weight"          // [hidden]
	QProj     Part = "self_attn.q_proj.weight"         // [heads·dim, hidden]
	KProj     Part = "self_attn.k_proj.weight"         // [kv heads·dim, hidden]
	VProj     Part = "self_attn.v_proj.weight"         // [kv heads·dim, hidden]
	OProj     Part = "self_attn.o_proj.weight"         // [hidden, heads·dim]
	QBias     Part = "self_attn.q_proj.bias"           // [heads·dim]
	KBias     Part = "self_attn.k_proj.bias"           // [kv heads·dim]
	VBias     Part = "self_attn.v_proj.bias"           // [kv heads·dim]
	OBias     Part = "self_attn.o_proj.bias"           // [hidden]
	QNorm     Part = "self_attn.q_norm.weight"         // [dim]
	KNorm     Part = "self_attn.k_norm.weight"         // [dim]
	PostNorm  Part = "post_attention_layernorm.weight" // [hidden]
	GateProj  Part = "mlp.gate_proj.weight"            // [intermediate, hidden]
	UpProj    Part = "mlp.up_proj.weight"              // [intermediate, hidden]
	DownProj  Part = "mlp.down_proj.weight"            // [hidden, intermediate]
)

// Names outside the layers. A target's names carry the prefix "model.", except the head; a drafter's carry none.
const (
	Embedding  = "embed_tokens.weight" // [vocab, hidden]
	FinalNorm  = "norm.weight"         // [hidden]
	Head       = "lm_head.weight"      // [vocab, hidden]
	FC         = "fc.weight"           // [hidden, taps·target hidden], drafter
	HiddenNorm = "hidden_norm.weight"  // [hidden], drafter
)

// LayerName returns the name of a layer's tensor, without prefix.
func LayerName(layer int, p Part) string { return fmt.Sprintf("layers.%d.%s", layer, p) }

// Shape is the name and shape of a tensor.
type Shape struct {
	Name string
	Dims []int
}

// weights is what both a file and a directory of shards offer.
type weights interface {
	Names() []string
	Has(name string) bool
	Tensor(name string) (safetensors.View, error)
	Close() error
}

// checkShapes requires that w holds each tensor with its shape in a floating-point type. It reports the first few problems.
func checkShapes(w weights, want []Shape) error {
	p := problems{}
	for _, s := range want {
		v, err := w.Tensor(s.Name)
		if err == nil {
			err = v.Expect(s.Dims...)
		}
		if err == nil && !v.DType.Float() {
			err = fmt.Errorf("tensor %q is %s, want a floating-point type", s.Name, v.DType)
		}
		p.add(err)
	}
	return p.join()
}
