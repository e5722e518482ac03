package hf

import (
	"os"
	"path/filepath"
	"testing"

	"penstock/schema/safetensors"
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

func TestExportRoundTrip(t *testing.T) {
	cfg, err := ReadDrafterConfig(filepath.Join(demoGolden, "drafter_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	src, err := OpenDrafter(cfg, demoGolden+"/drafter_init.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	get := func(name string) ([]float32, error) {
		v, err := src.Tensor(name)
		if err != nil {
			return nil, err
		}
		return v.Float32()
	}
	for _, dtype := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
		out := filepath.Join(t.TempDir(), "drafter")
		for range 2 { // the second replaces the first
			if err := WriteDrafter(out, cfg, get, Export{DType: dtype}); err != nil {
				t.Fatal(err)
			}
		}
		d, err := ReadDrafter(out)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, s := range cfg.Shapes() {
			v, _ := d.Tensor(s.Name)
			got, err := v.Float32()
			if err != nil {
				t.Fatal(err)
			}
			want, _ := get(s.Name)
			for i := range want {
				w := want[i]
				if dtype == safetensors.BF16 {
					w = safetensors.BF16ToFloat32(safetensors.BF16FromFloat32(w))
				}
				if got[i] != w {
					t.Fatalf("%s %s[%d]: %g, want %g", dtype, s.Name, i, got[i], w)
				}
			}
		}
		left, _ := os.ReadDir(filepath.Dir(out))
		if len(left) != 1 {
			t.Errorf("left over: %v", left)
		}
	}
}
