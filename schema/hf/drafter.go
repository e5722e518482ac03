package hf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"penstock/schema/safetensors"
)

// ConfigFile is the name of a model's configuration in its directory.
const ConfigFile = "config.json"

// Where a drafter's configuration and weights are looked for, in order.
var (
	drafterConfigs = []string{ConfigFile, "drafter_config.json"}
	drafterWeights = []string{safetensors.SingleFile, "drafter.safetensors"}
)

// Drafter is an open drafter: its configuration and its mapped weights.
type Drafter struct {
	DrafterConfig
	Path    string // of the weights: their file, or the directory of their shards
	weights weights
}

// ReadDrafter opens dir's config.json or drafter_config.json and its model.safetensors, its shards or drafter.safetensors.
func ReadDrafter(dir string) (*Drafter, error) {
	c, err := find(dir, drafterConfigs)
	if err != nil {
		return nil, fmt.Errorf("drafter %s: %w", dir, err)
	}
	cfg, err := ReadDrafterConfig(c)
	if err != nil {
		return nil, err
	}
	if w, err := find(dir, drafterWeights); err == nil {
		return OpenDrafter(cfg, w)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("drafter %s: %w", dir, err)
	}
	shards, err := safetensors.OpenDir(dir)
	if err != nil {
		return nil, fmt.Errorf("drafter %s: has neither %s nor shards of it: %w", dir, safetensors.SingleFile, err)
	}
	return newDrafter(cfg, dir, shards)
}

func find(dir string, names []string) (string, error) {
	for _, n := range names {
		path := filepath.Join(dir, n)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("has none of %v: %w", names, fs.ErrNotExist)
}

// OpenDrafter maps a file of weights and checks it against the configuration: every tensor is there with its shape, and no
// other is, since a tensor that is not understood would be left out of the forward without a word.
func OpenDrafter(cfg DrafterConfig, path string) (*Drafter, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	return newDrafter(cfg, path, f)
}

func newDrafter(cfg DrafterConfig, path string, f weights) (*Drafter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, errors.Join(fmt.Errorf("drafter %s: %w", path, err), f.Close())
	}
	p := problems{}
	if fc, err := f.Tensor(FC); err == nil && len(fc.Shape) == 2 && fc.Shape[1] != len(cfg.Taps)*cfg.TargetHiddenSize {
		p.add(fmt.Errorf("fc takes %d columns, %d taps of a target of hidden size %d give %d",
			fc.Shape[1], len(cfg.Taps), cfg.TargetHiddenSize, len(cfg.Taps)*cfg.TargetHiddenSize))
	}
	shapes := cfg.Shapes()
	p.add(checkShapes(f, shapes))
	for _, n := range f.Names() {
		if !slices.ContainsFunc(shapes, func(s Shape) bool { return s.Name == n }) {
			p.add(fmt.Errorf("tensor %q is not part of a DFlash drafter", n))
		}
	}
	if err := p.join(); err != nil {
		return nil, errors.Join(fmt.Errorf("drafter %s: the weights do not fit the configuration: %w", path, err), f.Close())
	}
	return &Drafter{DrafterConfig: cfg, Path: path, weights: f}, nil
}

// Tensor returns a tensor by its name, such as FC or LayerName(0, QProj).
func (d *Drafter) Tensor(name string) (safetensors.View, error) { return d.weights.Tensor(name) }

// Close unmaps the weights; views of them must not be used any more.
func (d *Drafter) Close() error { return d.weights.Close() }

// Float32 returns a copy of a tensor's values.
func (d *Drafter) Float32(name string) ([]float32, error) {
	v, err := d.Tensor(name)
	if err != nil {
		return nil, err
	}
	return v.Float32()
}

// ReadAt copies a tensor's values, those from element at on, to dst. It is a Source.
func (d *Drafter) ReadAt(dst []float32, name string, at int) error {
	v, err := d.Tensor(name)
	if err != nil {
		return err
	}
	return v.Part(at, len(dst)).CopyFloat32(dst)
}
