package hf

import "penstock/schema/safetensors"

// exported is the config.json of a drafter directory. Where readers differ in spelling or place, both are written.
type exported struct {
	Architectures    []string          `json:"architectures"`
	AutoMap          map[string]string `json:"auto_map"`
	ModelType        string            `json:"model_type"`
	BlockSize        int               `json:"block_size"`
	DFlash           exportedDFlash    `json:"dflash_config"`
	Hidden           int               `json:"hidden_size"`
	TargetHidden     int               `json:"target_hidden_size"`
	Intermediate     int               `json:"intermediate_size"`
	Layers           int               `json:"num_hidden_layers"`
	Heads            int               `json:"num_attention_heads"`
	KVHeads          int               `json:"num_key_value_heads"`
	HeadDim          int               `json:"head_dim"`
	LayerTypes       []string          `json:"layer_types"`
	TargetLayers     int               `json:"num_target_layers"`
	MaxPositions     int               `json:"max_position_embeddings"`
	RopeTheta        float64           `json:"rope_theta"`
	RopeScaling      map[string]any    `json:"rope_scaling"` // null: positions are not scaled
	RopeParameters   map[string]any    `json:"rope_parameters"`
	Eps              float64           `json:"rms_norm_eps"`
	Act              string            `json:"hidden_act"`
	AttentionBias    bool              `json:"attention_bias"`
	AttentionDropout float64           `json:"attention_dropout"`
	Tie              bool              `json:"tie_word_embeddings"`
	Vocab            int               `json:"vocab_size"`
	DType            string            `json:"dtype"`
	TorchDType       string            `json:"torch_dtype"`
	MaxWindowLayers  int               `json:"max_window_layers"`
	UseSliding       bool              `json:"use_sliding_window"`
	SlidingWindow    *int              `json:"sliding_window"`
}

type exportedDFlash struct {
	BlockSize int   `json:"block_size"`
	Mask      int   `json:"mask_token_id"`
	Taps      []int `json:"target_layer_ids"`
}

func (x Export) config(c DrafterConfig) exported {
	e := exported{
		Architectures: []string{drafterArchitecture}, AutoMap: map[string]string{"AutoModel": "dflash.DFlashDraftModel"}, ModelType: "qwen3", BlockSize: c.BlockSize,
		DFlash: exportedDFlash{c.BlockSize, c.MaskTokenID, c.Taps},
		Hidden: c.HiddenSize, TargetHidden: c.TargetHiddenSize, Intermediate: c.IntermediateSize, Layers: c.Layers,
		Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, LayerTypes: c.LayerTypes, TargetLayers: c.TargetLayers,
		MaxPositions: c.MaxPositions, RopeTheta: c.RopeTheta, RopeParameters: c.Scaling.keys(c.RopeTheta),
		Eps: c.RMSNormEps, Act: "silu", AttentionBias: c.AttentionBias, Vocab: c.VocabSize,
		DType: "bfloat16", MaxWindowLayers: c.Layers,
	}
	if x.DType == safetensors.F32 {
		e.DType = "float32"
	}
	e.TorchDType = e.DType
	if c.Scaling.Kind != "" {
		e.RopeScaling = c.Scaling.keys(c.RopeTheta)
		delete(e.RopeScaling, "rope_theta")
	}
	for i := range c.LayerTypes {
		if w := c.LayerWindow(i); w > 0 { // readers drop sliding_window unless use_sliding_window is set
			e.UseSliding, e.SlidingWindow = true, &w
		}
	}
	return e
}
