package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"penstock/schema/safetensors"
	"penstock/schema/safetensors/safetensorstest"
)

const (
	demoTarget  = "../../deploy/demo/models/tiny-go"
	demoGolden  = "../../deploy/demo/golden/tiny-go"
	demoTrained = "../../deploy/demo/golden/tiny-go-trained"
)

func openDemo(t *testing.T) *Target {
	t.Helper()
	target, err := OpenTarget(demoTarget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}

func TestOpenTarget(t *testing.T) {
	target := openDemo(t)
	want := Geometry{HiddenSize: 128, IntermediateSize: 384, Layers: 6, Heads: 2, KVHeads: 1, HeadDim: 64, VocabSize: 2048,
		MaxPositions: 4096, RMSNormEps: 1e-6, RopeTheta: 1e6}
	if target.Geometry != want {
		t.Errorf("geometry %+v, want %+v", target.Geometry, want)
	}
	if !target.TieEmbeddings || target.DType != "bfloat16" || len(target.EOS) != 1 || target.EOS[0] != 2046 {
		t.Errorf("tied %v, dtype %q, EOS %v", target.TieEmbeddings, target.DType, target.EOS)
	}
	head, err := target.Head()
	if err != nil {
		t.Fatal(err)
	}
	if head.Name != "model.embed_tokens.weight" {
		t.Errorf("tied head is %q", head.Name)
	}
	q, err := target.LayerTensor(5, QProj)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := q.Float32(); err != nil || len(v) != 128*128 {
		t.Errorf("%d values, %v", len(v), err)
	}
}

// TestFingerprint: equal for equal targets, another for another configuration or one changed weight.
func TestFingerprint(t *testing.T) {
	mark := func(dir string) string {
		t.Helper()
		target, err := OpenTarget(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		f, err := target.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	dir, want := copyDemo(t, nil), mark(demoTarget)
	if got := mark(dir); got != want {
		t.Errorf("a copy has fingerprint %s, the target %s", got, want)
	}
	if got := mark(copyDemo(t, map[string]any{"rope_parameters": map[string]any{"rope_theta": 5e5}})); got == want {
		t.Error("another base of the positions does not show")
	}
	if err := safetensorstest.Change(filepath.Join(dir, safetensors.SingleFile)); err != nil {
		t.Fatal(err)
	}
	if got := mark(dir); got == want {
		t.Error("a changed weight does not show")
	}
}

func TestReadGoldenDrafter(t *testing.T) {
	cfg, err := ReadDrafterConfig(filepath.Join(demoGolden, "drafter_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.BlockSize != 8 || cfg.MaskTokenID != 2047 || cfg.Gamma != 4 || cfg.Window != 0 || cfg.Taps[2] != 4 {
		t.Errorf("%+v", cfg)
	}
	if err := cfg.CheckTarget(openDemo(t)); err != nil {
		t.Error(err)
	}
	for _, f := range []string{demoGolden + "/drafter_init.safetensors", demoTrained + "/drafter.safetensors"} {
		d, err := OpenDrafter(cfg, f)
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
}

// golden opens the golden drafter with its configuration.
func golden(t *testing.T) *Drafter {
	t.Helper()
	cfg, err := ReadDrafterConfig(filepath.Join(demoGolden, "drafter_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenDrafter(cfg, filepath.Join(demoGolden, "drafter_init.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestExportRoundTrip(t *testing.T) {
	src := golden(t)
	for _, dtype := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
		out := filepath.Join(t.TempDir(), "drafter")
		for range 2 { // the second replaces the first
			if err := WriteDrafter(out, src.DrafterConfig, src.ReadAt, Export{DType: dtype}); err != nil {
				t.Fatal(err)
			}
		}
		d, err := ReadDrafter(out)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		want := src.DrafterConfig
		want.Gamma, want.MaxPositions = 0, d.MaxPositions // neither stands in both files
		if !reflect.DeepEqual(d.DrafterConfig, want) {
			t.Errorf("configuration %+v, want %+v", d.DrafterConfig, want)
		}
		for _, s := range src.Shapes() {
			got, err := d.Float32(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			want, err := src.Float32(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			for i, w := range want {
				if dtype == safetensors.BF16 {
					w = safetensors.BF16ToFloat32(safetensors.BF16FromFloat32(w))
				}
				if got[i] != w {
					t.Fatalf("%s %s[%d]: %g, want %g", dtype, s.Name, i, got[i], w)
				}
			}
		}
		if left, _ := os.ReadDir(filepath.Dir(out)); len(left) != 1 {
			t.Errorf("left over: %v", left)
		}
	}
}

// What serving systems and transformers look up, by name: a misnamed tensor or key would be ignored there.
func TestExportLayout(t *testing.T) {
	src := golden(t)
	cfg := src.DrafterConfig
	cfg.Window, cfg.LayerTypes = 512, layerTypes(cfg.Layers, 512)
	dir := t.TempDir()
	out := filepath.Join(dir, "drafter")
	if err := WriteDrafter(out, cfg, src.ReadAt, Export{}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"architectures": []any{"DFlashDraftModel"}, "auto_map": map[string]any{"AutoModel": "dflash.DFlashDraftModel"}, "model_type": "qwen3",
		"block_size": 8.0, "dflash_config": map[string]any{"block_size": 8.0, "mask_token_id": 2047.0, "target_layer_ids": []any{1.0, 2.0, 4.0}},
		"hidden_size": 128.0, "target_hidden_size": 128.0, "intermediate_size": 384.0, "num_hidden_layers": 2.0, "num_attention_heads": 2.0,
		"num_key_value_heads": 1.0, "head_dim": 64.0, "layer_types": []any{"sliding_attention", "full_attention"}, "num_target_layers": 6.0,
		"max_position_embeddings": 32768.0, "rope_theta": 1e6, "rope_scaling": nil, "rope_parameters": map[string]any{"rope_theta": 1e6, "rope_type": "default"},
		"rms_norm_eps": 1e-6, "hidden_act": "silu", "attention_bias": false, "attention_dropout": 0.0, "tie_word_embeddings": false, "vocab_size": 2048.0,
		"dtype": "bfloat16", "torch_dtype": "bfloat16", "max_window_layers": 2.0, "use_sliding_window": true, "sliding_window": 512.0,
	}
	for k, w := range want {
		if g, ok := got[k]; !ok || !reflect.DeepEqual(g, w) {
			t.Errorf("%s is %v, want %v", k, g, w)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("unexpected key %s", k)
		}
	}
	f, err := safetensors.Open(filepath.Join(out, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for i := range 2 {
		for _, p := range strings.Fields(`input_layernorm.weight mlp.down_proj.weight mlp.gate_proj.weight mlp.up_proj.weight post_attention_layernorm.weight
			self_attn.k_norm.weight self_attn.k_proj.weight self_attn.o_proj.weight self_attn.q_norm.weight self_attn.q_proj.weight self_attn.v_proj.weight`) {
			names = append(names, fmt.Sprintf("layers.%d.%s", i, p))
		}
	}
	names = append([]string{"fc.weight", "hidden_norm.weight"}, append(names, "norm.weight")...)
	if !reflect.DeepEqual(f.Names(), names) {
		t.Errorf("tensors %v, want %v", f.Names(), names)
	}
	d, err := ReadDrafter(out)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.LayerWindow(0) != 512 || d.LayerWindow(1) != 0 {
		t.Errorf("windows %d, %d", d.LayerWindow(0), d.LayerWindow(1))
	}
}

// A drafter takes its target's rotary scaling along, through an export in both spellings and back.
func TestExportScaledPositions(t *testing.T) {
	for _, name := range []string{"qwen3-random", "qwen2-random", "llama3-random", "mistral-random"} {
		target, err := OpenTarget(filepath.Join(filepath.Dir(demoTarget), name))
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		cfg := NewDrafterConfig(target, 2, 5, 16, target.VocabSize-1, []int{0, 2})
		out := filepath.Join(t.TempDir(), "drafter")
		if err := WriteDrafter(out, cfg, zeros, Export{}); err != nil {
			t.Fatal(err)
		}
		for _, drop := range []string{"", "rope_scaling", "rope_parameters"} {
			dir := t.TempDir()
			change := map[string]any{drop: nil}
			if drop == "rope_parameters" && cfg.Scaling.Kind == "" {
				change["rope_scaling"] = nil
			}
			edited(t, filepath.Join(out, ConfigFile), dir, ConfigFile, change)
			got, err := ReadDrafterConfig(filepath.Join(dir, ConfigFile))
			if err != nil || !reflect.DeepEqual(got, cfg) {
				t.Errorf("%s without %q: %+v, %v, want %+v", name, drop, got, err, cfg)
			}
		}
		if code, err := os.ReadFile(filepath.Join(out, codeFile)); err != nil || !strings.Contains(string(code), "class DFlashDraftModel(") {
			t.Errorf("%s: %v", codeFile, err)
		}
	}
}

func TestExportRefuses(t *testing.T) {
	src := golden(t)
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteDrafter(out, src.DrafterConfig, src.ReadAt, Export{}); err == nil || !strings.Contains(err.Error(), `holds "thesis.tex"`) {
		t.Errorf("a directory with other files: %v", err)
	}
	out = filepath.Join(out, "drafter")
	broken := errors.New("device lost")
	lost := func([]float32, string, int) error { return broken }
	if err := WriteDrafter(out, src.DrafterConfig, lost, Export{}); !errors.Is(err, broken) || !strings.Contains(err.Error(), `tensor "`+FC) {
		t.Errorf("a source that fails: %v", err)
	}
	if err := WriteDrafter(out, src.DrafterConfig, src.ReadAt, Export{DType: safetensors.F16}); err == nil {
		t.Error("writes F16")
	}
	bad := src.DrafterConfig
	bad.MaskTokenID = -1
	if err := WriteDrafter(out, bad, src.ReadAt, Export{}); err == nil || !strings.Contains(err.Error(), "mask_token_id") {
		t.Errorf("bad mask: %v", err)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("something was written: %v", err)
	}
}
