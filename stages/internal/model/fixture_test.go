package model

import (
	"testing"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
	"penstock/schema/hf"
)

// counting is the reference device with its allocations counted.
type counting struct {
	kernels.Ref
	allocs int
}

func (c *counting) Alloc(rows, cols int) kernels.Tensor {
	c.allocs++
	return c.Ref.Alloc(rows, cols)
}

func (c *counting) AllocHalf(rows, cols int) kernels.Tensor { return c.Alloc(rows, cols) }

// shape is a target of 4 layers with grouped heads, which has no files.
func shape(bias bool) *hf.Target {
	return &hf.Target{Architecture: "Qwen3ForCausalLM", Geometry: hf.Geometry{
		HiddenSize: 12, IntermediateSize: 20, Layers: 4, Heads: 4, KVHeads: 2, HeadDim: 6, VocabSize: 31,
		MaxPositions: 64, RMSNormEps: 1e-5, RopeTheta: 100, AttentionBias: bias}}
}

// lively is InitRandom with values large enough for every part to matter.
func lively(seed uint64) Source {
	return func(s hf.Shape) ([]float32, error) {
		rows, cols := matrix(s.Dims)
		v, r := make([]float32, rows*cols), stream(seed, s.Name)
		for i := range v {
			if v[i] = 0.4 * normal(r); len(s.Dims) == 1 {
				v[i]++
			}
		}
		return v, nil
	}
}

func newTarget(t *testing.T, dev kernels.Device, bias bool) *Target {
	t.Helper()
	s := shape(bias)
	m, err := NewTarget(dev, s, s.Layers, lively(1))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newDrafter(t *testing.T, dev kernels.Device, bias bool, layers, size, window int) *Drafter {
	t.Helper()
	s := shape(bias)
	cfg := hf.NewDrafterConfig(s, layers, size, window, 30, []int{0, 2, 3})
	d, err := NewDrafter(dev, cfg, newTarget(t, dev, bias).Vocabulary, lively(2))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// row is a packed row of three documents with anchors at a document's first, inner and last rows.
func row(dev kernels.Device, d *Drafter) *Batch {
	b := &Batch{Offsets: []int32{0, 11, 12, 25}, Anchors: []int32{0, 3, 9, 11, 12, 17, 17, 24}}
	b.IDs = kernelstest.Rows(25, 30, 5)
	for i := range b.IDs {
		b.Mask = append(b.Mask, uint8(min(i%5, 1)))
	}
	width := len(d.Config.Taps) * d.Config.TargetHiddenSize
	b.Hidden = kernelstest.New(dev, 25, width, kernelstest.Pattern(25*width, 6))
	return b
}
