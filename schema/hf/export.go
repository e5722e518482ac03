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

// Source returns a drafter tensor's values, row-major, by its name.
type Source func(name string) ([]float32, error)

// Export is how WriteDrafter writes.
type Export struct {
	DType safetensors.DType // BF16 if empty; F32 keeps the masters exactly
	Code  string            // path of another dflash.py to put beside the weights; empty for ours
}

// WriteDrafter writes a drafter directory that vLLM, SGLang and transformers load: model.safetensors, config.json with the
// keys that they read in both spellings, and dflash.py. get is asked for each name of cfg.Shapes once.
//
// The directory appears whole under its name or not at all. A directory that is there already is replaced only if it holds
// nothing but an earlier export. What the servers cannot serve is refused.
func WriteDrafter(dir string, cfg DrafterConfig, get Source, x Export) error {
	err := errors.Join(cfg.checkServable(), checkReplaceable(dir))
	if err == nil {
		err = durable.WriteDir(dir, func(aside string) error {
			if err := FillDrafter(aside, cfg, get, x); err != nil {
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

// checkWritten reads an export back: whole, finite, and of the configuration that was written.
func checkWritten(dir string, cfg DrafterConfig) error {
	d, err := ReadDrafter(dir)
	if err != nil {
		return fmt.Errorf("read it back: %w", err)
	}
	defer d.Close()
	cfg.Gamma = 0 // not exported
	if got, want := fmt.Sprintf("%+v", d.DrafterConfig), fmt.Sprintf("%+v", cfg); got != want {
		return fmt.Errorf("read it back: its configuration is %s, was %s", got, want)
	}
	for _, s := range cfg.Shapes() {
		v, err := d.Float32(s.Name)
		if err != nil {
			return fmt.Errorf("read it back: %w", err)
		}
		for i, x := range v {
			if x-x != 0 {
				return fmt.Errorf("tensor %q: element %d is %g", s.Name, i, x)
			}
		}
	}
	return nil
}

// FillDrafter writes what WriteDrafter writes into a directory that the caller makes whole and puts in place.
func FillDrafter(dir string, cfg DrafterConfig, get Source, x Export) error {
	if x.DType == "" {
		x.DType = safetensors.BF16
	}
	if x.DType != safetensors.BF16 && x.DType != safetensors.F32 {
		return fmt.Errorf("weights are written as BF16 or F32, not %s", x.DType)
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
	return WriteTensors(filepath.Join(dir, safetensors.SingleFile), cfg, get, x.DType)
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

// WriteTensors writes a file with one tensor of the drafter's shapes each: its weights, or something per weight.
func WriteTensors(path string, cfg DrafterConfig, get Source, dtype safetensors.DType) error {
	var specs []safetensors.Spec
	for _, s := range cfg.Shapes() {
		specs = append(specs, safetensors.Spec{Name: s.Name, DType: dtype, Shape: s.Dims})
	}
	w, err := safetensors.Create(path, specs, map[string]string{"format": "pt"})
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, s := range specs {
		v, err := get(s.Name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", s.Name, err)
		}
		if err := w.Float32(s.Name, v); err != nil {
			return err
		}
	}
	return w.Commit()
}
