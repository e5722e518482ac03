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
	SlidingWindow   *int            `json:"sliding_window"`
	MaxWindowLayers *int            `json:"max_window_layers"`
	LayerTypes      []string        `json:"layer_types"`
	DType           string          `json:"dtype"`
	TorchDType      string          `json:"torch_dtype"`
	EOS             tokenIDs        `json:"eos_token_id"`
	Quantization    json.RawMessage `json:"quantization_config"`

	// Drafters only.
	TargetHidden *int     `json:"target_hidden_size"`
	TargetLayers *int     `json:"num_target_layers"`
	BlockSize    *int     `json:"block_size"`
	Window       *int     `json:"window_of_first_layers"`
	Gamma        *float64 `json:"loss_decay_gamma"`
	DFlash       *struct {
		Taps      []int `json:"target_layer_ids"`
		Mask      *int  `json:"mask_token_id"`
		BlockSize *int  `json:"block_size"`
	} `json:"dflash_config"`
}

type rope struct {
	Type    string   `json:"rope_type"`
	OldType string   `json:"type"`
	Theta   *float64 `json:"rope_theta"`
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

// geometry reads the sizes. A key whose absence would change the model silently is required; what the checkpoints' own
// library fills in for the qwen3 model type is filled in alike (headDim is the family's default).
func (c *config) geometry(headDim int) (Geometry, error) {
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
	g.KVHeads, g.HeadDim = or(c.KVHeads, g.Heads), or(c.HeadDim, headDim)
	g.MaxPositions, g.RMSNormEps = or(c.MaxPositions, 32768), or(c.Eps, 1e-6)
	if act := or(c.Act, "silu"); act != "silu" {
		errs = append(errs, fmt.Errorf("hidden_act: %q is not supported, only silu is", act))
	}
	theta, err := c.rope()
	g.RopeTheta = theta
	if err := errors.Join(append(errs, err)...); err != nil {
		return g, err
	}
	return g, g.check()
}

// rope returns the base frequency from either spelling and refuses scaled positions.
func (c *config) rope() (float64, error) {
	for key, r := range map[string]*rope{"rope_scaling": c.RopeScaling, "rope_parameters": c.RopeParameters} {
		if r == nil {
			continue
		}
		for _, t := range []string{r.Type, r.OldType} {
			if t != "" && t != "default" {
				return 0, fmt.Errorf("%s: type %q is not supported, only default is", key, t)
			}
		}
	}
	var inner *float64
	if c.RopeParameters != nil {
		inner = c.RopeParameters.Theta
	}
	switch {
	case c.RopeTheta == nil && inner == nil:
		return 0, errors.New("rope_theta: is missing, and rope_parameters has none")
	case inner == nil:
		return *c.RopeTheta, nil
	case c.RopeTheta != nil && *c.RopeTheta != *inner:
		return 0, fmt.Errorf("rope_theta: is %g, but rope_parameters says %g", *c.RopeTheta, *inner)
	}
	return *inner, nil
}

func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}
