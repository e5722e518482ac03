package model

import (
	"math"
	"slices"
	"strings"
	"testing"

	"penstock/schema/hf"
)

const tinyGo = "../../../deploy/demo/models/tiny-go"

// TestInitIsPortable fixes the first numbers of a tensor: they are integer arithmetic and equal on every machine.
func TestInitIsPortable(t *testing.T) {
	shape := hf.Shape{Name: hf.FC, Dims: []int{1, 3}}
	got, _ := InitRandom(1)(shape)
	if want := []float32{0.0131274415, -0.0032168578, -0.03014099}; !slices.Equal(got, want) {
		t.Errorf("numbers are %v, want %v", got, want)
	}
	seed, _ := InitRandom(2)(shape)
	name, _ := InitRandom(1)(hf.Shape{Name: hf.Head, Dims: []int{1, 3}})
	if slices.Equal(seed, got) || slices.Equal(name, got) {
		t.Error("seed and name do not both matter")
	}
}

func TestNormalMoments(t *testing.T) {
	const n = 200_000
	r := stream(3, "moments")
	var m [5]float64
	for range n {
		x := float64(normal(r))
		for k := range m {
			m[k] += math.Pow(x, float64(k)) / n
		}
	}
	for k, want := range []float64{1, 0, 1, 0, 2.9} { // twelve summands: kurtosis 3 - 1.2/12
		if math.Abs(m[k]-want) > 0.05 {
			t.Errorf("moment %d is %v, want %v", k, m[k], want)
		}
	}
}

func TestInitRandom(t *testing.T) {
	from := InitRandom(1)
	w, _ := from(hf.Shape{Name: "fc.weight", Dims: []int{100, 100}})
	var square float64
	for _, v := range w {
		square += float64(v) * float64(v) / 1e4
	}
	if math.Abs(math.Sqrt(square)-0.02) > 1e-3 {
		t.Errorf("deviation %v, want 0.02", math.Sqrt(square))
	}
	norm, _ := from(hf.Shape{Name: "norm.weight", Dims: []int{3}})
	bias, _ := from(hf.Shape{Name: "layers.0.self_attn.q_proj.bias", Dims: []int{3}})
	if !slices.Equal(norm, []float32{1, 1, 1}) || !slices.Equal(bias, []float32{0, 0, 0}) {
		t.Errorf("norm %v, bias %v", norm, bias)
	}
}

func TestInitFromTarget(t *testing.T) {
	target, err := hf.OpenTarget(tinyGo)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	cfg := hf.NewDrafterConfig(target, 2, 8, 0, 2047, []int{1, 2, 4})
	from, err := InitFromTarget(target, cfg, FromTarget{Layers: []int{4, 5}, FinalNorm: true, FC: []float32{0, 0.5, 2}, Rest: InitRandom(1)})
	if err != nil {
		t.Fatal(err)
	}
	read := Files(target)
	for name, original := range map[string]string{
		"layers.0.self_attn.q_proj.weight": "model.layers.4.self_attn.q_proj.weight",
		"layers.1.input_layernorm.weight":  "model.layers.5.input_layernorm.weight",
		"norm.weight":                      "model.norm.weight",
	} {
		for _, s := range cfg.Shapes() {
			if s.Name != name {
				continue
			}
			got, err := from(s)
			if err != nil {
				t.Fatal(err)
			}
			want, err := read(hf.Shape{Name: original, Dims: s.Dims})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s is not the target's %s", name, original)
			}
		}
	}
	fc, err := from(hf.Shape{Name: hf.FC, Dims: []int{128, 384}})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range fc {
		row, col := i/384, i%384
		want := float32(0)
		if col%128 == row {
			want = []float32{0, 0.5, 2}[col/128]
		}
		if v != want {
			t.Fatalf("fc[%d, %d] = %v, want %v", row, col, v, want)
		}
	}
	rest, _ := from(hf.Shape{Name: hf.HiddenNorm, Dims: []int{128}})
	if rest[0] != 1 {
		t.Errorf("hidden_norm starts at %v", rest[0])
	}
	for want, o := range map[string]FromTarget{
		"1 layers named":  {Layers: []int{1}},
		"layer 6":         {Layers: []int{1, 6}},
		"2 factors for 3": {Layers: []int{1, 2}, FC: []float32{1, 2}},
	} {
		if _, err := InitFromTarget(target, cfg, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
