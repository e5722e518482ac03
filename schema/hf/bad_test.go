package hf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"penstock/schema/safetensors"
)

// edited writes the JSON file from with keys changed (nil removes one) to dir/name.
func edited(t *testing.T, from, dir, name string, change map[string]any) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	for k, v := range change {
		if m[k] = v; v == nil {
			delete(m, k)
		}
	}
	if text, err = json.MarshalIndent(m, "", " "); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// copyDemo copies the demo target with its config.json changed.
func copyDemo(t *testing.T, change map[string]any) string {
	t.Helper()
	dir := t.TempDir()
	b, err := os.ReadFile(filepath.Join(demoTarget, safetensors.SingleFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, safetensors.SingleFile), b, 0o644); err != nil {
		t.Fatal(err)
	}
	edited(t, filepath.Join(demoTarget, ConfigFile), dir, ConfigFile, change)
	return dir
}

func TestTargetSpellings(t *testing.T) {
	old := map[string]any{"rope_parameters": nil, "rope_theta": 5e5, "rope_scaling": nil, "dtype": nil, "torch_dtype": "float16",
		"eos_token_id": []int{2046, 2044}, "layer_types": nil, "num_key_value_heads": 1}
	target, err := OpenTarget(copyDemo(t, old))
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if target.RopeTheta != 5e5 || target.DType != "float16" || !reflect.DeepEqual(target.EOS, []int{2046, 2044}) {
		t.Errorf("theta %g, dtype %q, EOS %v", target.RopeTheta, target.DType, target.EOS)
	}
}

func TestBadTargets(t *testing.T) {
	for name, c := range map[string]struct {
		change map[string]any
		want   string
	}{
		"architecture":    {map[string]any{"architectures": []string{"GPT2LMHeadModel"}}, "architectures: GPT2LMHeadModel is not supported; supported are the dense decoders Qwen3ForCausalLM, Qwen2ForCausalLM, LlamaForCausalLM, MistralForCausalLM"},
		"experts":         {map[string]any{"architectures": []string{"Qwen3MoeForCausalLM"}, "num_experts": 128}, "Qwen3MoeForCausalLM, a mixture of 128 experts, is not supported; supported are"},
		"hidden experts":  {map[string]any{"num_local_experts": 8}, "Qwen3ForCausalLM as a mixture of 8 experts is not supported"},
		"hybrid":          {map[string]any{"architectures": []string{"Qwen3NextForCausalLM"}, "layer_types": []string{"linear_attention"}}, `Qwen3NextForCausalLM, a hybrid with layers of "linear_attention", is not supported`},
		"several modes":   {map[string]any{"architectures": []string{"Mistral3ForConditionalGeneration"}, "text_config": map[string]any{}}, "a model of several modes, is not supported"},
		"family":          {map[string]any{"architectures": []string{"LlamaForCausalLM"}}, `tensor "model.layers.0.self_attn.k_norm.weight" is not part of a LlamaForCausalLM`},
		"parallel sizes":  {map[string]any{"architectures": []string{"LlamaForCausalLM"}, "pretraining_tp": 2}, "pretraining_tp: 2 is not supported"},
		"MLP bias":        {map[string]any{"architectures": []string{"LlamaForCausalLM"}, "mlp_bias": true}, "mlp_bias: is not supported"},
		"Qwen2 bias":      {map[string]any{"architectures": []string{"Qwen2ForCausalLM"}, "attention_bias": true}, "attention_bias: is not a key of this architecture"},
		"no Qwen2 bias":   {map[string]any{"architectures": []string{"Qwen2ForCausalLM"}}, `holds no tensor "model.layers.0.self_attn.q_proj.bias"`},
		"no architecture": {map[string]any{"architectures": nil}, "architectures: is missing"},
		"missing size":    {map[string]any{"hidden_size": nil}, "hidden_size: is missing"},
		"default head":    {map[string]any{"head_dim": nil}, "shape [128 128], want [256 128]"}, // an absent head_dim means 128
		"wrong shape":     {map[string]any{"intermediate_size": 400}, `tensor "model.layers.0.mlp.gate_proj.weight" has shape [384 128], want [400 128]`},
		"too many layers": {map[string]any{"num_hidden_layers": 7, "layer_types": nil}, `holds no tensor "model.layers.6.input_layernorm.weight"`},
		"no head":         {map[string]any{"tie_word_embeddings": false}, `holds no tensor "lm_head.weight"`},
		"bias":            {map[string]any{"attention_bias": true}, `holds no tensor "model.layers.0.self_attn.q_proj.bias"`},
		"no theta":        {map[string]any{"rope_parameters": nil}, "rope_theta: is missing"},
		"two thetas":      {map[string]any{"rope_theta": 1e4}, "rope_theta: is 10000, but rope_parameters says 1e+06"},
		"dynamic":         {map[string]any{"rope_parameters": map[string]any{"rope_type": "dynamic", "rope_theta": 1e6}}, `rope_parameters: type "dynamic" is not supported, only default, linear, llama3 and yarn are`},
		"old longrope":    {map[string]any{"rope_scaling": map[string]any{"type": "longrope"}}, `rope_scaling: type "longrope" is not supported`},
		"no factor":       {map[string]any{"rope_scaling": map[string]any{"type": "linear"}}, "rope_scaling: factor is missing"},
		"small factor":    {map[string]any{"rope_scaling": map[string]any{"type": "yarn", "factor": 0.5}}, "rope_scaling: factor 0.5 is not at least 1"},
		"llama3 bounds":   {map[string]any{"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 1}}, "want 0 < low_freq_factor 4 < high_freq_factor 1"},
		"two scalings":    {map[string]any{"rope_scaling": map[string]any{"type": "linear", "factor": 2}, "rope_parameters": map[string]any{"rope_type": "linear", "factor": 3, "rope_theta": 1e6}}, "rope_scaling: differs from rope_parameters"},
		"part of a head":  {map[string]any{"partial_rotary_factor": 0.5}, "partial_rotary_factor: 0.5 is not supported"},
		"activation":      {map[string]any{"hidden_act": "gelu"}, `hidden_act: "gelu" is not supported`},
		"sliding":         {map[string]any{"layer_types": []string{"sliding_attention", "full_attention", "full_attention", "full_attention", "full_attention", "full_attention"}}, "sliding_window: is missing or below 1"},
		"old sliding":     {map[string]any{"layer_types": nil, "use_sliding_window": true, "sliding_window": -3, "max_window_layers": 2}, "sliding_window: is missing or below 1"},
		"layer types":     {map[string]any{"layer_types": []string{"full_attention"}}, "layer_types: has 1 entries for 6 layers"},
		"quantized":       {map[string]any{"quantization_config": map[string]any{"quant_method": "fp8"}}, "quantized weights are not supported"},
		"text":            {map[string]any{"hidden_size": "128"}, "hidden_size: cannot be a JSON string"},
		"zero":            {map[string]any{"num_attention_heads": 0}, "num_attention_heads: 0 is not in 1.."},
		"groups":          {map[string]any{"num_key_value_heads": 3}, "num_attention_heads: 2 is no multiple of num_key_value_heads 3"},
		"EOS":             {map[string]any{"eos_token_id": 5000}, "eos_token_id: 5000 is not in the vocabulary 0..2047"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDemo(t, c.change)
			_, err := OpenTarget(dir)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

// Each family's reading of sliding windows.
func TestWindows(t *testing.T) {
	three := func(arch string, change map[string]any) string {
		c := map[string]any{"architectures": []string{arch}, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 3,
			"num_attention_heads": 2, "vocab_size": 9, "rope_theta": 100}
		for k, v := range change {
			c[k] = v
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, c := range []struct {
		text string
		want []int
	}{
		{three("Qwen3ForCausalLM", map[string]any{"sliding_window": 5}), nil},
		{three("Qwen2ForCausalLM", map[string]any{"sliding_window": 5, "use_sliding_window": true}), nil},
		{three("Qwen2ForCausalLM", map[string]any{"sliding_window": 5, "use_sliding_window": true, "max_window_layers": 1}), []int{0, 5, 5}},
		{three("Qwen3ForCausalLM", map[string]any{"sliding_window": 5, "use_sliding_window": true, "layer_types": []string{FullAttention, SlidingAttention, FullAttention}}), []int{0, 5, 0}},
		{three("LlamaForCausalLM", map[string]any{"sliding_window": 5}), nil},
		{three("MistralForCausalLM", map[string]any{"sliding_window": 5}), []int{5, 5, 5}},
		{three("MistralForCausalLM", map[string]any{"sliding_window": nil}), nil},
		{three("MistralForCausalLM", nil), []int{4096, 4096, 4096}},
	} {
		var raw config
		if err := json.Unmarshal([]byte(c.text), &raw); err != nil {
			t.Fatal(err)
		}
		f, err := findFamily(&raw)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := f.read(&raw); err != nil || !reflect.DeepEqual(d.windows, c.want) {
			t.Errorf("%s: windows %v, %v, want %v", c.text, d.windows, err, c.want)
		}
	}
}

func TestTornTargets(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"no directory": {os.RemoveAll, "config.json: no such file"},
		"no weights":   {func(d string) error { return os.Remove(filepath.Join(d, safetensors.SingleFile)) }, "has neither model.safetensors nor"},
		"torn weights": {func(d string) error { return os.Truncate(filepath.Join(d, safetensors.SingleFile), 100000) }, "model.safetensors: tensor"},
		"torn config":  {func(d string) error { return os.Truncate(filepath.Join(d, ConfigFile), 30) }, "config.json:3: bad or torn JSON"},
		"torn generation": {func(d string) error {
			return os.WriteFile(filepath.Join(d, "generation_config.json"), []byte("{"), 0o644)
		}, "generation_config.json:1: bad or torn JSON"},
		"generation's token": {func(d string) error {
			return os.WriteFile(filepath.Join(d, "generation_config.json"), []byte(`{"eos_token_id":[1,-1]}`), 0o644)
		}, "generation_config.json: eos_token_id: -1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDemo(t, nil)
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenTarget(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestBadDrafters(t *testing.T) {
	golden := filepath.Join(demoGolden, "drafter_config.json")
	taps := func(ids ...int) map[string]any { return map[string]any{"target_layer_ids": ids, "mask_token_id": 2047} }
	for name, c := range map[string]struct {
		change map[string]any
		want   string
	}{
		"no dflash_config": {map[string]any{"dflash_config": nil}, "dflash_config: is missing"},
		"no taps":          {map[string]any{"dflash_config": map[string]any{"mask_token_id": 1}}, "target_layer_ids: is missing"},
		"no mask":          {map[string]any{"dflash_config": map[string]any{"target_layer_ids": []int{1, 2, 4}}}, "mask_token_id: is missing"},
		"mask":             {map[string]any{"vocab_size": 2047}, "mask_token_id: 2047 is not in the vocabulary 0..2046"},
		"tap past the end": {map[string]any{"dflash_config": taps(1, 2, 6)}, "target_layer_ids: 6 is not a layer of the target, which has 0..5"},
		"negative tap":     {map[string]any{"dflash_config": taps(-1, 2, 4)}, "target_layer_ids: -1 is not a layer"},
		"tap order":        {map[string]any{"dflash_config": taps(2, 1, 4)}, "is not ascending"},
		"tap count":        {map[string]any{"dflash_config": taps(1, 4)}, "fc takes 384 columns, 2 taps of a target of hidden size 128 give 256"},
		"two blocks":       {map[string]any{"dflash_config": map[string]any{"target_layer_ids": []int{1}, "mask_token_id": 1, "block_size": 16}}, "block_size: is 8, but dflash_config says 16"},
		"no block":         {map[string]any{"block_size": nil}, "block_size: is missing"},
		"no target layers": {map[string]any{"num_target_layers": nil}, "num_target_layers: is missing"},
		"layer types":      {map[string]any{"layer_types": []string{FullAttention}}, "layer_types: has 1 entries for 2 layers"},
		"layer type":       {map[string]any{"layer_types": []string{"linear", FullAttention}}, `layer_types[0]: "linear" is neither`},
		"no window":        {map[string]any{"layer_types": []string{SlidingAttention, FullAttention}}, "sliding_window: is missing"},
		"more layers":      {map[string]any{"num_hidden_layers": 3}, `holds no tensor "layers.2.`},
		"fewer layers":     {map[string]any{"num_hidden_layers": 1}, `tensor "layers.1.input_layernorm.weight" is not part of a DFlash drafter`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			edited(t, golden, dir, "drafter_config.json", c.change)
			cfg, err := ReadDrafterConfig(filepath.Join(dir, "drafter_config.json"))
			if err == nil {
				_, err = OpenDrafter(cfg, filepath.Join(demoGolden, "drafter_init.safetensors"))
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := ReadDrafter(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has none of [config.json drafter_config.json]") {
		t.Errorf("empty directory: %v", err)
	}
}

func TestCheckTarget(t *testing.T) {
	target := openDemo(t)
	c := NewDrafterConfig(target, 2, 8, 0, 2047, []int{1, 2, 4})
	if err := c.CheckTarget(target); err != nil {
		t.Error(err)
	}
	c.TargetHiddenSize, c.TargetLayers, c.VocabSize = 64, 36, 3000
	err := c.CheckTarget(target)
	for _, key := range []string{"target_hidden_size", "num_target_layers", "vocab_size"} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("error %v, want %s in it", err, key)
		}
	}
}

func TestTapIDs(t *testing.T) {
	for _, c := range []struct {
		layers, n int
		want      []int
	}{
		{36, 5, []int{1, 9, 17, 25, 33}}, {64, 5, []int{1, 16, 31, 46, 61}}, {32, 5, []int{1, 8, 15, 22, 29}}, {36, 1, []int{18}},
		{6, 3, []int{1, 2, 3}}, {1, 1, []int{0}}, {9, 3, []int{1, 4, 6}}, {8, 3, []int{1, 3, 5}}, // 3.5 rounds to 4
		{5, 3, nil}, {3, 2, nil}, {4, 0, nil}, {0, 1, nil},
	} {
		got, err := BuildTapIDs(c.layers, c.n)
		if !reflect.DeepEqual(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%d taps of %d layers: %v, %v, want %v", c.n, c.layers, got, err, c.want)
		}
	}
	if err := CheckTaps([]int{1, 2, 4}, 6); err != nil {
		t.Error(err)
	}
	for _, taps := range [][]int{nil, {-1}, {6}, {5}, {2, 1}, {1, 1}} {
		if err := CheckTaps(taps, 6); err == nil {
			t.Errorf("taps %v of 6 layers pass", taps)
		}
	}
}
