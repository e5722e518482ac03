package hf

import (
	"errors"
	"fmt"
	"slices"
)

// Kinds of attention in DrafterConfig.LayerTypes.
const (
	FullAttention    = "full_attention"
	SlidingAttention = "sliding_attention"
)

// DrafterConfig is a DFlash drafter's shape and its tie to the target.
type DrafterConfig struct {
	Geometry
	TargetHiddenSize int
	TargetLayers     int
	BlockSize        int
	Taps             []int // i means the output of the target's layer i, counted from 0
	MaskTokenID      int
	Window           int      // of the sliding layers; 0 if there are none
	LayerTypes       []string // one per layer
	Gamma            float64  // decay of the loss where a golden folder states it, else 0; not exported
}

// NewDrafterConfig shapes a drafter like the target's layers: layers of them, all but the last with the sliding window
// unless it is 0. A single layer is never sliding.
func NewDrafterConfig(t *Target, layers, blockSize, window, maskTokenID int, taps []int) DrafterConfig {
	if layers < 2 {
		window = 0
	}
	c := DrafterConfig{Geometry: t.Geometry, TargetHiddenSize: t.HiddenSize, TargetLayers: t.Layers, BlockSize: blockSize,
		Taps: slices.Clone(taps), MaskTokenID: maskTokenID, Window: window}
	c.Layers = layers
	c.LayerTypes = layerTypes(layers, window)
	return c
}

func layerTypes(layers, window int) []string {
	types := make([]string, max(layers, 0))
	for i := range types {
		types[i] = FullAttention
		if window > 0 && i < layers-1 {
			types[i] = SlidingAttention
		}
	}
	return types
}

// LayerWindow returns the sliding window of a layer, 0 for full attention.
func (c DrafterConfig) LayerWindow(layer int) int {
	if c.LayerTypes[layer] == SlidingAttention {
		return c.Window
	}
	return 0
}

// Shapes lists a drafter's tensors, in the order fc, hidden_norm, layers, norm.
func (c DrafterConfig) Shapes() []Shape {
	s := []Shape{{FC, []int{c.HiddenSize, len(c.Taps) * c.TargetHiddenSize}}, {HiddenNorm, []int{c.HiddenSize}}}
	for i := range c.Layers {
		s = append(s, denseLayer("", i, c.Geometry, QNorm, KNorm)...)
	}
	return append(s, Shape{FinalNorm, []int{c.HiddenSize}})
}

// Validate returns every problem of the configuration itself.
func (c DrafterConfig) Validate() error {
	errs := []error{c.check()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.TargetHiddenSize < 1 || c.TargetHiddenSize > maxSize {
		bad("target_hidden_size: %d is not in 1..%d", c.TargetHiddenSize, maxSize)
	}
	if c.TargetLayers < 1 {
		bad("num_target_layers: %d is below 1", c.TargetLayers)
	}
	if c.BlockSize < 2 {
		bad("block_size: %d is below 2", c.BlockSize)
	}
	if len(c.Taps) == 0 {
		bad("target_layer_ids: is missing or empty")
	}
	for i, t := range c.Taps {
		if t < 0 || t >= c.TargetLayers {
			bad("target_layer_ids: %d is not a layer of the target, which has 0..%d", t, c.TargetLayers-1)
		}
		if i > 0 && t <= c.Taps[i-1] {
			bad("target_layer_ids: %v is not ascending", c.Taps)
		}
	}
	if c.MaskTokenID < 0 || c.MaskTokenID >= c.VocabSize {
		bad("mask_token_id: %d is not in the vocabulary 0..%d", c.MaskTokenID, c.VocabSize-1)
	}
	if len(c.LayerTypes) != c.Layers {
		bad("layer_types: has %d entries for %d layers", len(c.LayerTypes), c.Layers)
	}
	for i, t := range c.LayerTypes {
		if t != FullAttention && t != SlidingAttention {
			bad("layer_types[%d]: %q is neither %s nor %s", i, t, FullAttention, SlidingAttention)
		}
	}
	if c.Window < 1 && slices.Contains(c.LayerTypes, SlidingAttention) {
		bad("sliding_window: is missing, but layer_types has %s", SlidingAttention)
	}
	return errors.Join(errs...)
}

// CheckTarget returns every reason why the drafter cannot work with t.
func (c DrafterConfig) CheckTarget(t *Target) error {
	var errs []error
	for _, f := range []struct {
		what        string
		draft, want int
	}{
		{"target_hidden_size", c.TargetHiddenSize, t.HiddenSize}, {"hidden_size", c.HiddenSize, t.HiddenSize},
		{"num_target_layers", c.TargetLayers, t.Layers}, {"vocab_size", c.VocabSize, t.VocabSize},
	} {
		if f.draft != f.want {
			errs = append(errs, fmt.Errorf("drafter's %s is %d, target %s has %d", f.what, f.draft, t.Dir, f.want))
		}
	}
	return errors.Join(errs...)
}

// ReadDrafterConfig reads an exported config.json or the drafter_config.json of a golden folder.
func ReadDrafterConfig(path string) (DrafterConfig, error) {
	var raw config
	if err := readJSON(path, &raw); err != nil {
		return DrafterConfig{}, err
	}
	c, err := raw.drafter()
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return DrafterConfig{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func (c *config) drafter() (DrafterConfig, error) {
	g, err := c.geometry(defaults{headDim: qwen3HeadDim, maxPositions: 32768})
	errs := []error{err}
	if c.DFlash == nil {
		return DrafterConfig{}, errors.Join(append(errs, errors.New("dflash_config: is missing: not a DFlash drafter"))...)
	}
	errs = append(errs, c.foreign())
	need := func(key string, places ...*int) (n int) {
		places = slices.DeleteFunc(places, func(v *int) bool { return v == nil })
		if len(places) == 0 {
			errs = append(errs, fmt.Errorf("%s: is missing", key))
			return 0
		}
		if n = *places[0]; *places[len(places)-1] != n {
			errs = append(errs, fmt.Errorf("%s: is %d, but dflash_config says %d", key, n, *places[1]))
		}
		return n
	}
	d := DrafterConfig{
		Geometry: g, TargetHiddenSize: or(c.TargetHidden, g.HiddenSize),
		TargetLayers: need("num_target_layers", c.TargetLayers, c.DFlash.TargetLayers),
		BlockSize:    need("block_size", c.BlockSize, c.DFlash.BlockSize), Taps: c.DFlash.Taps,
		MaskTokenID: need("dflash_config.mask_token_id", c.DFlash.Mask),
		LayerTypes:  c.LayerTypes, Gamma: or(c.Gamma, 0),
	}
	switch {
	case err != nil: // no telling how many layers
	case c.LayerTypes == nil:
		d.Window = or(c.Window, 0)
		d.LayerTypes = layerTypes(g.Layers, d.Window)
	case slices.Contains(c.LayerTypes, SlidingAttention):
		d.Window = or(c.SlidingWindow.value, 0)
	}
	return d, errors.Join(errs...)
}
