package hf

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock/schema/safetensors"
)

// server derives from an exported config.json alone which tensors a server loads, as its loader does.
type server struct {
	name     string
	required []string                                         // keys that it fails or guesses without, dots for nesting
	tensors  func(c map[string]any) (map[string][]int, error) // what it looks up under the checkpoint's names
}

func number(c map[string]any, path string) int {
	var v any = c
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return -1
		}
		v = m[key]
	}
	f, ok := v.(float64)
	if !ok {
		return -1
	}
	return int(f)
}

// common is what all three read: fc over inputs of the given width, two norms, Qwen3 layers without embedding or head.
func common(c map[string]any, width int) map[string][]int {
	h, dim, wide := number(c, "hidden_size"), number(c, "head_dim"), number(c, "intermediate_size")
	q, kv := number(c, "num_attention_heads")*dim, number(c, "num_key_value_heads")*dim
	taps := len(c["dflash_config"].(map[string]any)["target_layer_ids"].([]any))
	t := map[string][]int{"fc.weight": {h, taps * width}, "hidden_norm.weight": {h}, "norm.weight": {h}}
	for i := range number(c, "num_hidden_layers") {
		for name, shape := range map[string][]int{
			"input_layernorm.weight": {h}, "post_attention_layernorm.weight": {h}, "self_attn.q_norm.weight": {dim}, "self_attn.k_norm.weight": {dim},
			"self_attn.q_proj.weight": {q, h}, "self_attn.k_proj.weight": {kv, h}, "self_attn.v_proj.weight": {kv, h}, "self_attn.o_proj.weight": {h, q},
			"mlp.gate_proj.weight": {wide, h}, "mlp.up_proj.weight": {wide, h}, "mlp.down_proj.weight": {h, wide},
		} {
			t[fmt.Sprintf("layers.%d.%s", i, name)] = shape
		}
		if c["attention_bias"] == true {
			for name, n := range map[string]int{"q_proj": q, "k_proj": kv, "v_proj": kv, "o_proj": h} {
				t[fmt.Sprintf("layers.%d.self_attn.%s.bias", i, name)] = []int{n}
			}
		}
	}
	return t
}

var servers = []server{
	// vllm/model_executor/models/qwen3_dflash.py: shapes from the configuration, the target's width from target_hidden_size;
	// names with mask_hidden are refused, layers of one kind or, with its second runner, of two.
	{"vllm", []string{"architectures", "model_type", "dflash_config.target_layer_ids", "dflash_config.mask_token_id", "rope_parameters.rope_theta",
		"rope_parameters.rope_type", "layer_types", "max_position_embeddings", "rms_norm_eps", "hidden_act", "vocab_size", "attention_bias"},
		func(c map[string]any) (map[string][]int, error) {
			if c["architectures"].([]any)[0] != "DFlashDraftModel" || c["model_type"] != "qwen3" {
				return nil, fmt.Errorf("architecture %v", c["architectures"])
			}
			return common(c, number(c, "target_hidden_size")), nil
		}},
	// sglang/srt/models/dflash.py and speculative/dflash_utils.py: the width is the drafter's own; ids in the target's layers,
	// of which it captures what enters the next; an unknown name is passed over in silence, so names must be exact.
	{"sglang", []string{"block_size", "dflash_config.block_size", "num_target_layers", "dflash_config.target_layer_ids", "dflash_config.mask_token_id",
		"num_key_value_heads", "head_dim", "rope_theta", "layer_types", "hidden_act"},
		func(c map[string]any) (map[string][]int, error) {
			for _, id := range c["dflash_config"].(map[string]any)["target_layer_ids"].([]any) {
				if i := int(id.(float64)); i < 0 || i+1 >= number(c, "num_target_layers") {
					return nil, fmt.Errorf("layer %d cannot be captured", i)
				}
			}
			sliding := slices.Contains(c["layer_types"].([]any), any("sliding_attention"))
			if sliding && number(c, "sliding_window") < 1 {
				return nil, fmt.Errorf("no sliding_window")
			}
			if number(c, "block_size") != number(c, "dflash_config.block_size") || c["hidden_act"] != "silu" || number(c, "dflash_config.mask_token_id") < 0 {
				return nil, fmt.Errorf("block size, activation or mask token")
			}
			return common(c, number(c, "hidden_size")), nil
		}},
	// transformers with dflash.py beside the weights.
	{"transformers", []string{"auto_map.AutoModel", "block_size", "num_target_layers", "layer_types", "dflash_config.target_layer_ids", "attention_dropout", "dtype", "torch_dtype"},
		func(c map[string]any) (map[string][]int, error) {
			if c["tie_word_embeddings"] != false {
				return nil, fmt.Errorf("tie_word_embeddings is %v", c["tie_word_embeddings"])
			}
			return common(c, number(c, "target_hidden_size")), nil
		}},
}

// TestServersLoadExports holds exports to what each server's loader looks up: every key there, every tensor there with its
// shape, and no other, since a server leaves a name that it does not know at random values.
func TestServersLoadExports(t *testing.T) {
	target := openDemo(t)
	for name, change := range map[string]func(c *DrafterConfig){
		"plain":   func(c *DrafterConfig) {},
		"sliding": func(c *DrafterConfig) { c.Window, c.LayerTypes = 64, layerTypes(c.Layers, 64) },
		"all sliding": func(c *DrafterConfig) {
			c.Window, c.LayerTypes = 8, []string{SlidingAttention, SlidingAttention, SlidingAttention}
		},
		"biases":    func(c *DrafterConfig) { c.AttentionBias = true },
		"odd sizes": func(c *DrafterConfig) { c.Heads, c.KVHeads, c.HeadDim, c.IntermediateSize = 9, 3, 22, 331 },
		"linear":    func(c *DrafterConfig) { c.Scaling = RopeScaling{Kind: LinearRope, Factor: 2.5} },
		"llama3": func(c *DrafterConfig) {
			c.Scaling = RopeScaling{Kind: Llama3Rope, Factor: 8, Original: 2048, LowFreq: 1, HighFreq: 4}
		},
		"yarn":       func(c *DrafterConfig) { c.Scaling = yarnOf(4) },
		"own factor": func(c *DrafterConfig) { c.Scaling = yarnOf(4); c.Scaling.Attention = 0.9 },
		"yarn, sliding": func(c *DrafterConfig) {
			c.Scaling, c.Window, c.LayerTypes = yarnOf(2.5), 64, layerTypes(c.Layers, 64)
			c.Scaling.Exact, c.Scaling.BetaFast = true, 16
		},
	} {
		cfg := NewDrafterConfig(target, 3, 8, 0, 2047, []int{0, 2, 3, 4})
		change(&cfg)
		dir := filepath.Join(t.TempDir(), "drafter")
		if err := WriteDrafter(dir, cfg, zeros, Export{}); err != nil {
			t.Fatal(err)
		}
		c := exportedKeys(t, dir)
		checkPositions(t, name, cfg, c)
		checkLayers(t, name, cfg, c)
		f, err := safetensors.Open(filepath.Join(dir, safetensors.SingleFile))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, s := range servers {
			for _, path := range s.required {
				var v any = c
				for key := range strings.SplitSeq(path, ".") {
					v = v.(map[string]any)[key]
				}
				if v == nil {
					t.Errorf("%s, %s: %s is missing", name, s.name, path)
				}
			}
			want, err := s.tensors(c)
			if err != nil {
				t.Errorf("%s, %s: %v", name, s.name, err)
				continue
			}
			if got := f.Names(); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
				t.Errorf("%s, %s: holds %v", name, s.name, got)
			}
			for n, dims := range want {
				if v, err := f.Tensor(n); err != nil || !slices.Equal(v.Shape, dims) || v.DType != safetensors.BF16 {
					t.Errorf("%s, %s: %s: %v %v, want %v, %v", name, s.name, n, v.DType, v.Shape, dims, err)
				}
			}
		}
	}
}

// exportedKeys reads an export's config.json as a server does.
func exportedKeys(t *testing.T, dir string) (c map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// zeros is a source of weights that are 0.
func zeros(dst []float32, _ string, _ int) error {
	clear(dst)
	return nil
}

// TestUnservable: what a server would refuse, or read as something else, is not exported.
func TestUnservable(t *testing.T) {
	target := openDemo(t)
	for name, c := range map[string]struct {
		change func(c *DrafterConfig)
		bad    float32
		want   string
	}{
		"last layer":    {func(c *DrafterConfig) { c.Taps = []int{1, 5} }, 0, "tap 5 is the target's last layer"},
		"negative tap":  {func(c *DrafterConfig) { c.Taps = []int{-1, 3} }, 0, "tap -1 is not a layer"},
		"other width":   {func(c *DrafterConfig) { c.TargetHiddenSize = 256 }, 0, "SGLang reads drafters of the target's size alone"},
		"narrow window": {func(c *DrafterConfig) { c.Window, c.LayerTypes = 7, []string{SlidingAttention} }, 0, "sliding_window is 7, below block_size 8"},
		"not a number":  {func(c *DrafterConfig) {}, float32(math.NaN()), "element 3 is NaN"},
		"infinite":      {func(c *DrafterConfig) {}, float32(math.Inf(1)), "element 3 is +Inf"},
		"mask past end": {func(c *DrafterConfig) { c.MaskTokenID = c.VocabSize }, 0, "mask_token_id"},
	} {
		cfg := NewDrafterConfig(target, 1, 8, 0, 2047, []int{0, 2})
		c.change(&cfg)
		get := func(dst []float32, name string, at int) error {
			err := zeros(dst, name, at)
			if name == FinalNorm && at == 0 {
				dst[3] = c.bad
			}
			return err
		}
		dir := filepath.Join(t.TempDir(), "drafter")
		if err := WriteDrafter(dir, cfg, get, Export{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: something was written", name)
		}
	}
}
