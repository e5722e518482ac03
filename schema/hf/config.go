package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// config is what this package reads of a config.json. Nil means that the key is absent or null.
type config struct {
	Architectures   []string        `json:"architectures"`
	ModelType       string          `json:"model_type"`
	Hidden          *int            `json:"hidden_size"`
	Intermediate    *int            `json:"intermediate_size"`
	Layers          *int            `json:"num_hidden_layers"`
	Heads           *int            `json:"num_attention_heads"`
	KVHeads         *int            `json:"num_key_value_heads"`
	HeadDim         *int            `json:"head_dim"`
	Vocab           *int            `json:"vocab_size"`
	MaxPositions    *int            `json:"max_position_embeddings"`
	Eps             *float64        `json:"rms_norm_eps"`
	Act             *string         `json:"hidden_act"`
	AttentionBias   bool            `json:"attention_bias"`
	Tie             *bool           `json:"tie_word_embeddings"`
	RopeTheta       *float64        `json:"rope_theta"`
	RopeScaling     *rope           `json:"rope_scaling"`
	RopeParameters  *rope           `json:"rope_parameters"`
	UseSliding      bool            `json:"use_sliding_window"`
	SlidingWindow   nullable        `json:"sliding_window"`
	MaxWindowLayers *int            `json:"max_window_layers"`
	LayerTypes      []string        `json:"layer_types"`
	DType           string          `json:"dtype"`
	TorchDType      string          `json:"torch_dtype"`
	EOS             tokenIDs        `json:"eos_token_id"`
	Quantization    json.RawMessage `json:"quantization_config"`
	MLPBias         bool            `json:"mlp_bias"`
	PretrainingTP   *int            `json:"pretraining_tp"`
	Partial         *float64        `json:"partial_rotary_factor"`
	Experts         *int            `json:"num_experts"`
	LocalExperts    *int            `json:"num_local_experts"`
	RoutedExperts   *int            `json:"n_routed_experts"`
	Text            json.RawMessage `json:"text_config"`

	// Drafters only.
	TargetHidden *int          `json:"target_hidden_size"`
	TargetLayers *int          `json:"num_target_layers"`
	BlockSize    *int          `json:"block_size"`
	Window       *int          `json:"window_of_first_layers"`
	Gamma        *float64      `json:"loss_decay_gamma"`
	Causal       *bool         `json:"is_causal"`
	NeoX         *bool         `json:"is_neox_style"`
	DFlash       *dflashConfig `json:"dflash_config"`
}

// nullable tells an absent number from null.
type nullable struct {
	given bool
	value *int
}

func (n *nullable) UnmarshalJSON(b []byte) error {
	n.given = true
	return json.Unmarshal(b, &n.value)
}

// tokenIDs is a token id or a list of them.
type tokenIDs []int

func (t *tokenIDs) UnmarshalJSON(b []byte) error {
	var one int
	if json.Unmarshal(b, &one) == nil {
		if string(b) != "null" {
			*t = tokenIDs{one}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]int)(t))
}

// readJSON decodes a file; its errors name the file and, for bad JSON, the line.
func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such file: %w", path, fs.ErrNotExist)
	}
	if err != nil {
		return err
	}
	err = json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s:%d: bad or torn JSON: %w", path, line(text, syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s:%d: %s: cannot be a JSON %s", path, line(text, kind.Offset), kind.Field, kind.Value)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func line(text []byte, offset int64) int {
	n := 1
	for _, c := range text[:min(int(offset), len(text))] {
		if c == '\n' {
			n++
		}
	}
	return n
}

// defaults are what a family means by absent keys.
type defaults struct {
	headDim, maxPositions int
	theta                 float64 // 0: must be there
}

// geometry reads the sizes. A key whose absence would change the model silently is required; what the checkpoints' own
// library fills in for the family is filled in alike.
func (c *config) geometry(d defaults) (Geometry, error) {
	var errs []error
	need := func(key string, v *int) int {
		if v == nil {
			errs = append(errs, fmt.Errorf("%s: is missing", key))
			return 1
		}
		return *v
	}
	g := Geometry{
		HiddenSize: need("hidden_size", c.Hidden), IntermediateSize: need("intermediate_size", c.Intermediate),
		Layers: need("num_hidden_layers", c.Layers), Heads: need("num_attention_heads", c.Heads),
		VocabSize: need("vocab_size", c.Vocab), AttentionBias: c.AttentionBias,
	}
	g.KVHeads, g.HeadDim = or(c.KVHeads, g.Heads), or(c.HeadDim, d.headDim)
	g.MaxPositions, g.RMSNormEps = or(c.MaxPositions, d.maxPositions), or(c.Eps, 1e-6)
	if act := or(c.Act, "silu"); act != "silu" {
		errs = append(errs, fmt.Errorf("hidden_act: %q is not supported, only silu is", act))
	}
	var err error
	g.RopeTheta, g.Scaling, err = c.positions(d.theta)
	if err := errors.Join(append(errs, err)...); err != nil {
		return g, err
	}
	return g, g.check()
}

func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}
