package model

import (
	"fmt"
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
	from, err := InitFromTarget(target, cfg)
	if err != nil {
		t.Fatal(err)
	}
	read := Files(target)
	norm, err := read(hf.Shape{Name: "model.layers.5.input_layernorm.weight", Dims: []int{128}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range cfg.Shapes() {
		got, err := from(s)
		if err != nil {
			t.Fatal(err)
		}
		var layer int
		var part string
		inLayer, _ := fmt.Sscanf(s.Name, "layers.%d.%s", &layer, &part)
		switch {
		case s.Name == hf.FC:
			for i, v := range got {
				want := float32(0)
				if i%384 == 256+i/384 {
					want = 1
				}
				if v != want {
					t.Fatalf("fc[%d, %d] = %v, want %v", i/384, i%384, v, want)
				}
			}
		case inLayer < 2 || part == string(hf.InputNorm):
			if slices.ContainsFunc(got, func(v float32) bool { return v != 1 }) {
				t.Errorf("%s is not all ones", s.Name)
			}
		default:
			want, err := read(hf.Shape{Name: "model.layers.5." + part, Dims: s.Dims})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(part, "q_proj") || strings.Contains(part, "k_proj") || strings.Contains(part, "v_proj") {
				for i := range want {
					want[i] *= norm[i%128]
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s is not the target's", s.Name)
			}
		}
	}
	cfg.IntermediateSize++
	if _, err := InitFromTarget(target, cfg); err == nil {
		t.Error("layers of another shape were accepted")
	}
}

// TestInitFromEveryFamily: what a target's layers lack, norms on heads or biases, starts neutral.
func TestInitFromEveryFamily(t *testing.T) {
	for _, name := range []string{"qwen3", "qwen2", "llama3", "llama3-tied", "mistral"} {
		target, err := hf.OpenTarget("../../../deploy/demo/models/" + name + "-random")
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		cfg := hf.NewDrafterConfig(target, 2, 4, 0, 1, []int{0, 2})
		from, err := InitFromTarget(target, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range cfg.Shapes() {
			v, err := from(s)
			rows, cols := matrix(s.Dims)
			if err != nil || len(v) != rows*cols {
				t.Errorf("%s: %s: %d values of %v, %v", name, s.Name, len(v), s.Dims, err)
			}
		}
		norm, _ := from(hf.Shape{Name: hf.LayerName(1, hf.QNorm), Dims: []int{target.HeadDim}})
		if one := norm[0] == 1; one == (name == "qwen3") {
			t.Errorf("%s: head norm starts with %v", name, norm[0])
		}
	}
}
