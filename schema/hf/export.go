package hf

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"penstock/schema/internal/durable"
	"penstock/schema/safetensors"
)

// codeFile is the model code that transformers runs from a drafter directory; modelCode is ours.
const codeFile = "dflash.py"

//go:embed dflash.py
var modelCode []byte

// Source copies a drafter tensor's values.
type Source = safetensors.Source

// Export is how WriteDrafter writes.
type Export struct {
	DType safetensors.DType // BF16 if empty; F32 keeps the masters exactly
	Code  string            // path of another dflash.py to put beside the weights; empty for ours
}

// WriteDrafter writes a drafter directory that vLLM, SGLang and transformers load: model.safetensors, config.json with the
// keys that they read in both spellings, and dflash.py. The caller's goroutine reads the weights.
//
// The directory appears whole under its name or not at all. A directory that is there already is replaced only if it holds
// nothing but an earlier export. What the servers cannot serve is refused.
func WriteDrafter(dir string, cfg DrafterConfig, get Source, x Export) error {
	err := errors.Join(cfg.checkServable(), checkReplaceable(dir))
	if err == nil {
		err = durable.WriteDir(dir, func(aside string) error {
			if err := Describe(aside, cfg, x); err != nil {
				return err
			}
			if err := WriteTensors(cfg, x.dtype(), File{Path: filepath.Join(aside, safetensors.SingleFile), From: get}); err != nil {
				return err
			}
			return checkWritten(aside, cfg)
		})
	}
	if err != nil {
		return fmt.Errorf("export drafter %s: %w", dir, err)
	}
	return nil
}

// checkServable refuses what vLLM or SGLang would refuse, or take for something else.
func (c DrafterConfig) checkServable() error {
	errs := []error{CheckTaps(c.Taps, c.TargetLayers)}
	if c.TargetHiddenSize != c.HiddenSize {
		errs = append(errs, fmt.Errorf("hidden_size is %d, the target's %d: SGLang reads drafters of the target's size alone", c.HiddenSize, c.TargetHiddenSize))
	}
	if slices.Contains(c.LayerTypes, SlidingAttention) && c.Window < c.BlockSize {
		errs = append(errs, fmt.Errorf("sliding_window is %d, below block_size %d: servers would hide a block's first slots from its last", c.Window, c.BlockSize))
	}
	return errors.Join(errs...)
}

func (x Export) dtype() safetensors.DType {
	if x.DType == "" {
		return safetensors.BF16
	}
	return x.DType
}

// Describe writes what stands beside the weights in a drafter directory, config.json and dflash.py.
func Describe(dir string, cfg DrafterConfig, x Export) error {
	if t := x.dtype(); t != safetensors.BF16 && t != safetensors.F32 {
		return fmt.Errorf("weights are written as BF16 or F32, not %s", t)
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	files := map[string][]byte{codeFile: modelCode}
	text, err := json.MarshalIndent(x.config(cfg), "", "  ")
	if err != nil {
		return err
	}
	files[ConfigFile] = append(text, '\n')
	if x.Code != "" {
		if files[codeFile], err = os.ReadFile(x.Code); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// checkReplaceable refuses a directory with anything that an export does not write.
func checkReplaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains([]string{ConfigFile, safetensors.SingleFile, codeFile}, e.Name()) {
			return fmt.Errorf("the directory exists and holds %q, which is not of an export: name another directory or empty it", e.Name())
		}
	}
	return nil
}
