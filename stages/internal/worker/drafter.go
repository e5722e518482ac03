package worker

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"penstock/schema"
	"penstock/schema/hf"
	"penstock/stages/internal/model"
	"penstock/stages/internal/tokenizer"
)

// maskToken is the token that block slots are filled with where the configuration names none.
const maskToken = "<|mask|>"

// DrafterConfig is the shape of the run's drafter. Taps and the mask token are checked against the target.
func DrafterConfig(cfg schema.Config, t *hf.Target) (hf.DrafterConfig, error) {
	if err := hf.CheckTaps(cfg.Target.Taps, t.Layers); err != nil {
		return hf.DrafterConfig{}, fmt.Errorf("target.taps: %w", err)
	}
	if dir, ok := strings.CutPrefix(cfg.Draft.Init, "path:"); ok {
		return importedConfig(cfg, t, dir)
	}
	mask := cfg.Draft.MaskTokenID
	if mask < 0 {
		tok, err := tokenizer.Load(filepath.Join(cfg.Target.Dir, "tokenizer.json"))
		if err != nil {
			return hf.DrafterConfig{}, err
		}
		id, ok := tok.ID(maskToken)
		if !ok {
			return hf.DrafterConfig{}, fmt.Errorf("draft.mask_token_id: the tokenizer of %s has no %s; name a token that its chats never contain", cfg.Target.Dir, maskToken)
		}
		mask = int(id)
	}
	shape := hf.NewDrafterConfig(t, cfg.Draft.Layers, cfg.Draft.BlockSize, cfg.Draft.Window, mask, cfg.Target.Taps)
	if err := shape.Validate(); err != nil {
		return shape, fmt.Errorf("drafter for %s: %w", cfg.Target.Dir, err)
	}
	return shape, nil
}

// importedConfig is the shape of the drafter directory that training starts from, published ones included: its geometry and
// attention may differ from the target's. What the configuration says too must agree with it.
func importedConfig(cfg schema.Config, t *hf.Target, dir string) (hf.DrafterConfig, error) {
	d, err := hf.ReadDrafter(dir)
	if err != nil {
		return hf.DrafterConfig{}, fmt.Errorf("draft.init: %w", err)
	}
	defer d.Close()
	shape := d.DrafterConfig
	errs := []error{shape.CheckTarget(t)}
	for _, f := range []struct {
		key       string
		set, want int
		free      bool // the configuration leaves it to the drafter
	}{
		{"draft.block_size", cfg.Draft.BlockSize, shape.BlockSize, false}, {"draft.layers", cfg.Draft.Layers, shape.Layers, false},
		{"draft.mask_token_id", cfg.Draft.MaskTokenID, shape.MaskTokenID, cfg.Draft.MaskTokenID < 0},
		{"draft.window", cfg.Draft.Window, shape.Window, cfg.Draft.Window == 0},
	} {
		if !f.free && f.set != f.want {
			errs = append(errs, fmt.Errorf("%s is %d, the drafter has %d: set it to that", f.key, f.set, f.want))
		}
	}
	if !slices.Equal(cfg.Target.Taps, shape.Taps) {
		errs = append(errs, fmt.Errorf("target.taps is %v, the drafter reads %v: set it to that", cfg.Target.Taps, shape.Taps))
	}
	if err := errors.Join(errs...); err != nil {
		return shape, fmt.Errorf("draft.init: drafter %s: %w", dir, err)
	}
	shape.Gamma = 0
	return shape, nil
}

// Schedule is the learning rate over the planned steps.
func Schedule(cfg schema.Config, windows int) model.Schedule {
	share := func(of float64) int { return int(math.Round(of * float64(windows))) }
	return model.Schedule{Kind: cfg.Train.Schedule, Peak: cfg.Train.LR, Steps: windows,
		Warmup: share(cfg.Train.Warmup), Cooldown: share(cfg.Train.Cooldown)}
}

// InitialWeights returns where a fresh drafter starts: target or random.
func InitialWeights(init string, seed uint64, t *hf.Target, shape hf.DrafterConfig) (model.Source, error) {
	switch init {
	case "random":
		return model.InitRandom(seed), nil
	case "target":
		return model.InitFromTarget(t, shape)
	}
	return nil, fmt.Errorf("draft.init is %q: want target, random or path:DIR", init)
}
