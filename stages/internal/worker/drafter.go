package worker

import (
	"fmt"
	"math"
	"path/filepath"

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
