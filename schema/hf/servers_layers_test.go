package hf

import (
	"math"
	"testing"
)

// yarnOf is a usual yarn scaling.
func yarnOf(factor float64) RopeScaling {
	return RopeScaling{Kind: YarnRope, Factor: factor, Original: 1024, BetaFast: 32, BetaSlow: 1, Attention: mscale(factor, 1)}
}

// rope is what a server makes of the rotary keys: their parameters, and how it finds yarn's factor of cosine and sine.
type ropeReader struct {
	name      string
	keys      func(c map[string]any) map[string]any
	attention func(r map[string]any, usual float64) float64
}

func table(c map[string]any, key string) map[string]any {
	m, _ := c[key].(map[string]any)
	return m
}

// older is how transformers 4 has the keys, and what its followers take from it: rope_scaling beside rope_theta.
func older(c map[string]any) map[string]any {
	r := map[string]any{"rope_type": "default"}
	for k, v := range table(c, "rope_scaling") {
		r[k] = v
	}
	r["rope_theta"] = c["rope_theta"]
	return r
}

// newer is how transformers 5 has them: rope_scaling if it is there, else rope_parameters, and rope_theta where that lacks it.
func newer(c map[string]any) map[string]any {
	if table(c, "rope_scaling") != nil {
		return older(c)
	}
	return table(c, "rope_parameters")
}

func plainly(c map[string]any) map[string]any { return table(c, "rope_parameters") }

// byAttention takes attention_factor where it is given; byRatio knows attn_factor alone, which multiplies the usual factor.
func byAttention(r map[string]any, usual float64) float64 {
	if f, ok := r["attention_factor"].(float64); ok {
		return f
	}
	return usual
}

func byRatio(r map[string]any, usual float64) float64 {
	if f, ok := r["attn_factor"].(float64); ok {
		return usual * f
	}
	return usual
}

var ropeReaders = []ropeReader{
	{"vllm", newer, byAttention},
	{"vllm before attention_factor", newer, byRatio},
	{"vllm on transformers 4", older, byRatio},
	{"sglang", newer, byRatio},
	{"sglang on transformers 4", older, byRatio},
	{"transformers", newer, byAttention},
	{"dflash.py", plainly, byAttention},
	{"dflash for MLX", older, byRatio},
}

// checkPositions holds the rotary keys of an export, as each reader has them, to the drafter's own.
func checkPositions(t *testing.T, name string, cfg DrafterConfig, c map[string]any) {
	t.Helper()
	for _, reader := range ropeReaders {
		r, s := reader.keys(c), cfg.Scaling
		want := map[string]any{"rope_theta": cfg.RopeTheta, "rope_type": "default"}
		if s.Kind != "" {
			want["rope_type"], want["factor"] = s.Kind, s.Factor
		}
		if s.Kind == Llama3Rope || s.Kind == YarnRope {
			want["original_max_position_embeddings"] = float64(s.Original)
		}
		switch s.Kind {
		case Llama3Rope:
			want["low_freq_factor"], want["high_freq_factor"] = s.LowFreq, s.HighFreq
		case YarnRope:
			want["beta_fast"], want["beta_slow"], want["truncate"] = s.BetaFast, s.BetaSlow, !s.Exact
			usual := 0.1*math.Log(s.Factor) + 1
			if got := reader.attention(r, usual); math.Abs(got-s.Attention) > 1e-12 {
				t.Errorf("%s, %s: cosine and sine are multiplied by %g, want %g", name, reader.name, got, s.Attention)
			}
			if r["mscale"] != nil || r["mscale_all_dim"] != nil {
				t.Errorf("%s, %s: mscale would go before attention_factor", name, reader.name)
			}
		}
		for key, w := range want {
			if r[key] != w {
				t.Errorf("%s, %s: %s is %v, want %v", name, reader.name, key, r[key], w)
			}
		}
	}
}

// checkLayers holds the windows of an export, as each server has them, to the drafter's own. A Qwen3 configuration loses
// sliding_window unless use_sliding_window is set; vLLM and dflash.py count a window with the token itself, SGLang without;
// all of them keep a sliding layer causal in its block and a full one not.
func checkLayers(t *testing.T, name string, cfg DrafterConfig, c map[string]any) {
	t.Helper()
	types := c["layer_types"].([]any)
	if len(types) != cfg.Layers || number(c, "max_window_layers") != cfg.Layers {
		t.Errorf("%s: layer types %v, max_window_layers %v", name, types, c["max_window_layers"])
	}
	window := 0
	if c["use_sliding_window"] == true {
		window = number(c, "sliding_window")
	} else if c["sliding_window"] != nil {
		t.Errorf("%s: sliding_window %v without use_sliding_window", name, c["sliding_window"])
	}
	for i, kind := range types {
		got := 0
		if kind == SlidingAttention {
			got = window
		}
		if got != cfg.LayerWindow(i) {
			t.Errorf("%s: layer %d has window %d, want %d", name, i, got, cfg.LayerWindow(i))
		}
		// A slot that a server hides from a later one of its block would be seen in training.
		if kind == SlidingAttention && got-1 < cfg.BlockSize-1 {
			t.Errorf("%s: layer %d looks %d back, its block reaches %d", name, i, got-1, cfg.BlockSize-1)
		}
	}
	for _, key := range []string{"causal", "use_swa", "swa_window_size", "attention_sink_bias", "attention_value_scale", "selector_rank", "conv_kernel_size", "projector_type"} {
		if v := table(c, "dflash_config")[key]; v != nil {
			t.Errorf("%s: dflash_config.%s is %v: vLLM or SGLang would serve another kind of drafter", name, key, v)
		}
	}
	for _, key := range []string{"is_causal", "draft_vocab_size", "eagle_aux_hidden_state_layer_ids", "mask_token", "text_config", "has_embed_tokens", "quantization_config", "logit_scale"} {
		if v, ok := c[key]; ok {
			t.Errorf("%s: %s is %v: vLLM or SGLang would read it", name, key, v)
		}
	}
}
