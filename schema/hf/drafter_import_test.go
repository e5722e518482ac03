package hf

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"penstock/schema/safetensors"
)

// published writes a drafter directory and edits its configuration as others spell it.
func published(t *testing.T, change func(c, dflash map[string]any)) (dir string, cfg DrafterConfig) {
	t.Helper()
	cfg = NewDrafterConfig(openDemo(t), 3, 8, 0, 2047, []int{0, 2, 4})
	dir = filepath.Join(t.TempDir(), "drafter")
	if err := WriteDrafter(dir, cfg, zeros, Export{}); err != nil {
		t.Fatal(err)
	}
	c := exportedKeys(t, dir)
	change(c, c["dflash_config"].(map[string]any))
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ConfigFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, cfg
}

// TestImportSpellings: keys in either place, and keys that say that something is off, give the same drafter.
func TestImportSpellings(t *testing.T) {
	for name, change := range map[string]func(c, d map[string]any){
		"as it is": func(c, d map[string]any) {},
		"inner sizes": func(c, d map[string]any) {
			d["num_target_layers"] = 6
			delete(c, "num_target_layers")
			delete(c, "block_size")
		},
		"outer block":   func(c, d map[string]any) { delete(d, "block_size") },
		"a mask's name": func(c, d map[string]any) { d["mask_token"] = "<|mask|>" },
		"what is off": func(c, d map[string]any) {
			maps.Copy(d, map[string]any{"causal": false, "use_swa": false, "swa_window_size": nil, "attention_sink_bias": false, "attention_value_scale": nil,
				"selector_rank": 0, "conv_kernel_size": 0, "output_multiplier": 1.0, "final_logit_softcapping": nil, "use_aux_hidden_state": true, "projector_type": nil})
			c["is_neox_style"] = true
		},
		"without its library's keys": func(c, d map[string]any) {
			for _, key := range []string{"rope_parameters", "target_hidden_size", "auto_map", "torch_dtype", "attention_dropout", "max_window_layers"} {
				delete(c, key)
			}
		},
	} {
		dir, want := published(t, change)
		d, err := ReadDrafter(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		defer d.Close()
		if !reflect.DeepEqual(d.DrafterConfig, want) {
			t.Errorf("%s: %+v, want %+v", name, d.DrafterConfig, want)
		}
	}
}

// TestForeignDrafters: a drafter that computes something else than ours is refused by what makes it so, not read as one of ours.
func TestForeignDrafters(t *testing.T) {
	for want, change := range map[string]func(c, d map[string]any){
		`"DFlash2DraftModel"] is not supported`:              func(c, d map[string]any) { c["architectures"] = []string{"DFlash2DraftModel"} },
		"dflash_config.use_swa: true is not supported":       func(c, d map[string]any) { d["use_swa"] = true },
		"dflash_config.swa_window_size: 512":                 func(c, d map[string]any) { d["swa_window_size"] = 512 },
		"dflash_config.selector_rank: 256":                   func(c, d map[string]any) { d["selector_rank"] = 256 },
		`dflash_config.projector_type: "domino"`:             func(c, d map[string]any) { d["projector_type"] = "domino" },
		"dflash_config.output_multiplier: 0.5":               func(c, d map[string]any) { d["output_multiplier"] = 0.5 },
		"dflash_config.final_logit_softcapping: 30":          func(c, d map[string]any) { d["final_logit_softcapping"] = 30 },
		"dflash_config.use_aux_hidden_state: false":          func(c, d map[string]any) { d["use_aux_hidden_state"] = false },
		"dflash_config.causal: true is not supported":        func(c, d map[string]any) { d["causal"] = true },
		"is_causal: true is not supported":                   func(c, d map[string]any) { c["is_causal"] = true },
		"is_neox_style: false is not supported":              func(c, d map[string]any) { c["is_neox_style"] = false },
		"num_target_layers: is 6, but dflash_config says 36": func(c, d map[string]any) { d["num_target_layers"] = 36 },
		"causal: false is not supported beside sliding layers": func(c, d map[string]any) {
			d["causal"], c["sliding_window"] = false, 64
			c["layer_types"] = []string{SlidingAttention, SlidingAttention, FullAttention}
		},
	} {
		dir, _ := published(t, change)
		if _, err := ReadDrafter(dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestShardedDrafter: weights in shards are read like one file, and a missing shard is named.
func TestShardedDrafter(t *testing.T) {
	dir, cfg := published(t, func(c, d map[string]any) {})
	if err := os.Remove(filepath.Join(dir, safetensors.SingleFile)); err != nil {
		t.Fatal(err)
	}
	index, second := map[string]string{}, "model-00002-of-00002.safetensors"
	var shards [2][]safetensors.Spec
	for i, s := range cfg.Shapes() {
		n := i % 2
		shards[n] = append(shards[n], safetensors.Spec{Name: s.Name, DType: safetensors.BF16, Shape: s.Dims})
		index[s.Name] = []string{"model-00001-of-00002.safetensors", second}[n]
	}
	for _, specs := range shards {
		w, err := safetensors.Create(filepath.Join(dir, index[specs[0].Name]), specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range specs {
			n := 1
			for _, d := range s.Shape {
				n *= d
			}
			v := make([]float32, n)
			v[0] = float32(i + 1)
			if err := w.Float32(s.Name, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, safetensors.IndexFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := ReadDrafter(dir)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := d.Float32(HiddenNorm); err != nil || v[0] != 1 {
		t.Errorf("%v, %v", v[:1], err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, second)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDrafter(dir); err == nil || !strings.Contains(err.Error(), second) {
		t.Errorf("a missing shard: %v", err)
	}
}
