package hf

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"penstock/schema/internal/durable"
	"penstock/schema/safetensors"
)

// codeFile is the model code that transformers runs from a drafter directory.
const codeFile = "dflash.py"

// Export is how WriteDrafter writes.
type Export struct {
	DType safetensors.DType // BF16 if empty; F32 keeps the masters exactly
	Code  string            // path of a dflash.py to put beside the weights; empty for none
}

// WriteDrafter writes a drafter directory that vLLM and SGLang load: model.safetensors and config.json, with the keys
// that they and transformers read in both spellings. get returns a tensor's values, row-major, for each name of cfg.Shapes.
//
// The directory appears whole under its name or not at all. A directory that is there already is replaced only if it holds
// nothing but an earlier export. The key auto_map is written only with Export.Code: without the file that it names,
// transformers would refuse the directory.
func WriteDrafter(dir string, cfg DrafterConfig, get func(name string) ([]float32, error), x Export) error {
	if x.DType == "" {
		x.DType = safetensors.BF16
	}
	if err := x.write(dir, cfg, get); err != nil {
		return fmt.Errorf("export drafter %s: %w", dir, err)
	}
	return nil
}

func (x Export) write(dir string, cfg DrafterConfig, get func(string) ([]float32, error)) error {
	if x.DType != safetensors.BF16 && x.DType != safetensors.F32 {
		return fmt.Errorf("weights are written as BF16 or F32, not %s", x.DType)
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := checkReplaceable(dir); err != nil {
		return err
	}
	files := map[string][]byte{}
	text, err := json.MarshalIndent(x.config(cfg), "", "  ")
	if err != nil {
		return err
	}
	files[drafterConfigs[0]] = append(text, '\n')
	if x.Code != "" {
		if files[codeFile], err = os.ReadFile(x.Code); err != nil {
			return err
		}
	}
	return durable.WriteDir(dir, func(aside string) error {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(aside, name), text, 0o644); err != nil {
				return err
			}
		}
		return writeWeights(filepath.Join(aside, drafterWeights[0]), cfg, get, x.DType)
	})
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
		if !slices.Contains([]string{drafterConfigs[0], drafterWeights[0], codeFile}, e.Name()) {
			return fmt.Errorf("the directory exists and holds %q, which is not of an export: name another directory or empty it", e.Name())
		}
	}
	return nil
}

func writeWeights(path string, cfg DrafterConfig, get func(string) ([]float32, error), dtype safetensors.DType) error {
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
