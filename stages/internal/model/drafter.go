package model

import (
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
)

// Drafter is a DFlash drafter on a device. Embedding and head are the target's and frozen. Weights are float32; products use
// their copy in the device's half type.
type Drafter struct {
	decoder
	Vocabulary
	Config  hf.DrafterConfig
	Weights *Params
	Slots   int // whose activations a step holds at once, at most; 0 for all of a batch's. A single document is never divided
	layers  []layer
}

// NewDrafter allocates a drafter and fills its weights from a source.
func NewDrafter(dev kernels.Device, cfg hf.DrafterConfig, vocab Vocabulary, from Source) (*Drafter, error) {
	d, err := blankDrafter(dev, cfg, vocab)
	if err == nil {
		err = d.Weights.Load(from)
	}
	if err != nil {
		return nil, fmt.Errorf("drafter: %w", err)
	}
	return d, nil
}

// FillDrafter is NewDrafter for weights that may be made on the device.
func FillDrafter(dev kernels.Device, cfg hf.DrafterConfig, vocab Vocabulary, fill Fill) (*Drafter, error) {
	d, err := blankDrafter(dev, cfg, vocab)
	if err == nil {
		err = d.Weights.Fill(fill)
	}
	if err != nil {
		return nil, fmt.Errorf("drafter: %w", err)
	}
	return d, nil
}

func blankDrafter(dev kernels.Device, cfg hf.DrafterConfig, vocab Vocabulary) (*Drafter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if e := vocab.Embedding; e.Rows != cfg.VocabSize || e.Cols != cfg.HiddenSize {
		return nil, fmt.Errorf("the target's embedding is %d×%d, the drafter's vocabulary and hidden size are %d and %d",
			e.Rows, e.Cols, cfg.VocabSize, cfg.HiddenSize)
	}
	d := &Drafter{decoder: newDecoder(dev, cfg.Geometry), Vocabulary: vocab, Config: cfg, Weights: NewParams(dev, cfg.Shapes()).WithHalf()}
	d.layers = d.layersOf(d.Weights.Half(), d.Weights)
	return d, nil
}

// layersOf sorts sets of the drafter's shapes into layers: one for the weights of products, one for norms and biases.
func (d *Drafter) layersOf(products, vectors *Params) []layer {
	layers := make([]layer, d.Config.Layers)
	for i := range layers {
		of := func(p *Params) func(hf.Part) kernels.Tensor {
			return func(part hf.Part) kernels.Tensor { return p.Tensor(hf.LayerName(i, part)) }
		}
		layers[i] = newLayer(of(products), of(vectors))
	}
	return layers
}

// blockIDs is the input of each block: the anchor's token, then mask tokens.
func (d *Drafter) blockIDs(anchors []int32) []int32 {
	ids := make([]int32, 0, len(anchors)*d.Config.BlockSize)
	for _, a := range anchors {
		ids = append(ids, a)
		for range d.Config.BlockSize - 1 {
			ids = append(ids, int32(d.Config.MaskTokenID))
		}
	}
	return ids
}
