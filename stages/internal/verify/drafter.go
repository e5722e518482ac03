package verify

import (
	"fmt"

	"penstock/kernels/kernelstest"
	"penstock/schema/hf"
	"penstock/schema/safetensors"
	"penstock/stages/internal/model"
)

const (
	configFile = "drafter_config.json"
	stepFile   = "drafter_step.safetensors"
	decodeFile = "decode.json"
)

// config is the drafter's shape: from the folder's drafter_config.json, or from decode.json, which leaves out what the
// target has already said. ok is false if there is neither.
func (r *run) config() (c hf.DrafterConfig, ok bool, err error) {
	switch {
	case r.golden.has(configFile):
		c, err = hf.ReadDrafterConfig(r.golden.path(configFile))
	case r.golden.has(decodeFile):
		c, err = r.decodeConfig()
	default:
		return c, false, nil
	}
	if err == nil {
		err = c.CheckTarget(r.target)
	}
	return c, true, err
}

func (r *run) decodeConfig() (hf.DrafterConfig, error) {
	var d struct {
		Config struct {
			Intermediate int     `json:"intermediate_size"`
			Layers       int     `json:"num_hidden_layers"`
			Heads        int     `json:"num_attention_heads"`
			KVHeads      int     `json:"num_key_value_heads"`
			HeadDim      int     `json:"head_dim"`
			RopeTheta    float64 `json:"rope_theta"`
			Eps          float64 `json:"rms_norm_eps"`
			BlockSize    int     `json:"block_size"`
			Window       int     `json:"window_of_first_layers"`
			DFlash       struct {
				Taps []int `json:"target_layer_ids"`
				Mask int   `json:"mask_token_id"`
			} `json:"dflash_config"`
		} `json:"config"`
	}
	if err := r.golden.json(decodeFile, &d); err != nil {
		return hf.DrafterConfig{}, err
	}
	g := d.Config
	c := hf.NewDrafterConfig(r.target, g.Layers, g.BlockSize, g.Window, g.DFlash.Mask, g.DFlash.Taps)
	c.IntermediateSize, c.Heads, c.KVHeads, c.HeadDim = g.Intermediate, g.Heads, g.KVHeads, g.HeadDim
	c.RopeTheta, c.RMSNormEps, c.AttentionBias = g.RopeTheta, g.Eps, false
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%s: config: %w", r.golden.path(decodeFile), err)
	}
	return c, nil
}

// drafter loads the folder's drafter weights.
func (r *run) drafter(c hf.DrafterConfig, weights string) (*model.Drafter, error) {
	m, err := r.loaded()
	if err != nil {
		return nil, err
	}
	f, err := hf.OpenDrafter(c, r.golden.path(weights))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return model.NewDrafter(r.dev, c, m.Vocabulary, model.Files(f))
}

// row reads the packed row of a folder.
func (r *run) row(f folder, c hf.DrafterConfig) (*model.Batch, error) {
	t, err := f.open(stepFile)
	if err != nil {
		return nil, err
	}
	b := &model.Batch{IDs: t.ints("ids"), Offsets: offsets(t.ints("doc")), Anchors: t.ints("anchors")}
	for _, on := range t.ints("loss_mask") {
		b.Mask = append(b.Mask, uint8(on))
	}
	hidden := t.floats("hidden")
	if err := t.close(); err != nil {
		return nil, err
	}
	if width := len(c.Taps) * c.TargetHiddenSize; len(hidden) != len(b.IDs)*width {
		return nil, fmt.Errorf("%s: hidden has %d elements for %d tokens of %d", f.path(stepFile), len(hidden), len(b.IDs), width)
	}
	b.Hidden = kernelstest.NewHalf(r.dev, len(b.IDs), len(c.Taps)*c.TargetHiddenSize, hidden)
	return b, nil
}

// slots compares what a step says of each slot with a file's ce [N, B] and weight [N, B]: weight exact, ce where it is 1.
func (r *run) slots(name string, got model.Result, t *tensors) {
	ce, weight := t.floats("ce"), t.floats("weight")
	var on tally
	on.count(len(weight) == len(got.Weight), "%d slots, want %d", len(got.Weight), len(weight))
	var a, b []float32
	for i := range min(len(weight), len(got.Weight), len(ce)) {
		on.count(float32(got.Weight[i]) == weight[i], "slot %d has weight %d, want %v", i, got.Weight[i], weight[i])
		if weight[i] == 1 {
			a, b = append(a, got.CE[i]), append(b, ce[i])
		}
	}
	r.exact(name+".weight", on)
	r.near(name+".ce", a, b, r.limits.loss)
}

// matching returns the names of a file's tensors that a parameter set has.
func matching(f *safetensors.File, p *model.Params) ([]string, error) {
	for _, n := range f.Names() {
		if p.Tensor(n).IsNil() {
			return nil, fmt.Errorf("tensor %q is not a parameter of the drafter", n)
		}
	}
	return f.Names(), nil
}
