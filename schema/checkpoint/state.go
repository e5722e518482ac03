package checkpoint

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"penstock/schema"
	"penstock/schema/hf"
)

// State is where a run stands between two windows.
type State struct {
	Run    string    `json:"run"`
	Gen    uint32    `json:"gen"`
	Window uint32    `json:"window"` // the next one to train
	Step   uint64    `json:"step"`   // optimizer updates applied: windows less those skipped
	Data   string    `json:"data"`   // content hash of the store
	Seed   uint64    `json:"seed"`   // with epoch and document the key of every random draw
	Totals Totals    `json:"totals"`
	Losses []float64 `json:"losses,omitempty"` // of the last windows, for the mean that a run reports

	CrossEntropies []float64 `json:"cross_entropies,omitempty"` // likewise

	Config  schema.Config    `json:"-"` // resolved; in config.yaml
	Drafter hf.DrafterConfig `json:"-"` // in config.json
}

// Totals are sums over the windows before Window.
type Totals struct {
	Batches   uint64  `json:"batches"`
	Documents uint64  `json:"documents"`
	Tokens    uint64  `json:"tokens"`
	Slots     uint64  `json:"slots"`
	Dead      uint64  `json:"dead"`    // batches rejected
	Skipped   uint64  `json:"skipped"` // steps skipped
	Loss      float64 `json:"loss"`    // Σ weighted loss
	Weight    float64 `json:"weight"`  // Σ weight
	Seconds   float64 `json:"seconds"` // spent training
}

// Names in a checkpoint, beside those of a drafter directory.
const (
	stateFile    = "state.json"
	configFile   = "config.yaml"
	manifestFile = "manifest.json"
	firstMoment  = "adam_m.safetensors"
	secondMoment = "adam_v.safetensors"
)

func (s State) write(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", stateFile, err)
	}
	if err := os.WriteFile(filepath.Join(dir, stateFile), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if text, err = s.Config.YAML(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, configFile), text, 0o644)
}

func readState(dir string) (State, error) {
	var s State
	path := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	path = filepath.Join(dir, configFile)
	if text, err = os.ReadFile(path); err != nil {
		return s, err
	}
	if s.Config, err = schema.ParseConfig(path, text, nil); err != nil {
		return s, err
	}
	s.Drafter, err = hf.ReadDrafterConfig(filepath.Join(dir, hf.ConfigFile))
	return s, err
}
