// Package geometry names the model sizes that speed is measured and memory is planned for, without any weights.
package geometry

import (
	"fmt"
	"slices"
	"strings"

	"penstock/schema/hf"
)

// Model is a target's size, with the drafter that is usually trained for it.
type Model struct {
	Name   string
	Target hf.Geometry
	Tied   bool  // the head is the embedding
	Taps   []int // captured layers
	Layers int   // of the drafter
	Block  int
}

// qwen3 fills in what the family's models share.
func qwen3(hidden, intermediate, layers, heads, kv, dim, vocab int) hf.Geometry {
	return hf.Geometry{
		HiddenSize: hidden, IntermediateSize: intermediate, Layers: layers, Heads: heads, KVHeads: kv, HeadDim: dim,
		VocabSize: vocab, MaxPositions: 40960, RMSNormEps: 1e-6, RopeTheta: 1e6,
	}
}

var models = []Model{
	{"tiny-go", qwen3(128, 384, 6, 2, 1, 64, 2048), true, []int{1, 2, 4}, 2, 8},
	{"qwen3-8b", qwen3(4096, 12288, 36, 32, 8, 128, 151936), false, []int{1, 9, 17, 25, 33}, 5, 16},
	{"qwen3-32b", qwen3(5120, 25600, 64, 64, 8, 128, 151936), false, []int{1, 16, 31, 46, 61}, 5, 16},
	{"27b", qwen3(5120, 17408, 64, 64, 8, 128, 248320), false, []int{1, 16, 31, 46, 61}, 5, 16},
}

// Names lists the known models.
func Names() []string {
	var names []string
	for _, m := range models {
		names = append(names, m.Name)
	}
	return names
}

// Lookup returns a model by name.
func Lookup(name string) (Model, error) {
	for _, m := range models {
		if m.Name == name {
			m.Taps = slices.Clone(m.Taps)
			return m, nil
		}
	}
	return Model{}, fmt.Errorf("geometry %q is unknown: choose one of %s", name, strings.Join(Names(), ", "))
}

// Open returns the model as a target directory would describe it. It has no weights.
func (m Model) Open() *hf.Target {
	return &hf.Target{Geometry: m.Target, Architecture: "Qwen3ForCausalLM", DType: "bfloat16", TieEmbeddings: m.Tied}
}

// Drafter returns the drafter's configuration.
func (m Model) Drafter() hf.DrafterConfig {
	return hf.NewDrafterConfig(m.Open(), m.Layers, m.Block, 0, m.Target.VocabSize-1, m.Taps)
}

// Parameters counts the elements of tensors.
func Parameters(shapes []hf.Shape) int64 {
	var n int64
	for _, s := range shapes {
		k := int64(1)
		for _, d := range s.Dims {
			k *= int64(d)
		}
		n += k
	}
	return n
}
