package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Names of weight files in a model directory.
const (
	SingleFile = "model.safetensors"
	IndexFile  = "model.safetensors.index.json"
)

// Dir is the weights of a model directory, in one file or in shards.
type Dir struct {
	path   string
	shards map[string]*File // by tensor name
	files  []*File
}

// OpenDir opens dir's model.safetensors or else the shards that its index names.
func OpenDir(dir string) (*Dir, error) {
	f, err := Open(filepath.Join(dir, SingleFile))
	if err == nil {
		d := &Dir{path: dir, shards: map[string]*File{}, files: []*File{f}}
		for _, n := range f.Names() {
			d.shards[n] = f
		}
		return d, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, IndexFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: has neither %s nor %s: %w", dir, SingleFile, IndexFile, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	d := &Dir{path: dir, shards: map[string]*File{}}
	if err := d.openShards(text); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Dir) openShards(index []byte) error {
	path := filepath.Join(d.path, IndexFile)
	var m struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &m); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(m.WeightMap) == 0 {
		return fmt.Errorf("%s: has no weight_map", path)
	}
	open := map[string]*File{}
	for _, tensor := range slices.Sorted(maps.Keys(m.WeightMap)) {
		shard := m.WeightMap[tensor]
		f := open[shard]
		if f == nil {
			if !filepath.IsLocal(shard) || filepath.Base(shard) != shard {
				return fmt.Errorf("%s: tensor %q: shard %q is not a file name in the directory", path, tensor, shard)
			}
			var err error
			if f, err = Open(filepath.Join(d.path, shard)); err != nil {
				return fmt.Errorf("%s: tensor %q: %w", path, tensor, err)
			}
			open[shard] = f
			d.files = append(d.files, f)
		}
		if !f.Has(tensor) {
			return fmt.Errorf("%s: tensor %q is not in %s", path, tensor, shard)
		}
		d.shards[tensor] = f
	}
	return nil
}

// Names returns the tensors' names, sorted.
func (d *Dir) Names() []string { return slices.Sorted(maps.Keys(d.shards)) }

// Has reports whether the directory holds the tensor.
func (d *Dir) Has(name string) bool { return d.shards[name] != nil }

// Tensor returns a view of one tensor. A name that is not there is an error.
func (d *Dir) Tensor(name string) (View, error) {
	f := d.shards[name]
	if f == nil {
		return View{}, fmt.Errorf("%s: holds no tensor %q", d.path, name)
	}
	return f.Tensor(name)
}

// Close unmaps all files.
func (d *Dir) Close() error {
	var err error
	for _, f := range d.files {
		err = errors.Join(err, f.Close())
	}
	return err
}
