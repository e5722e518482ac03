package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"penstock/schema/safetensors"
)

// folder is the path of a golden folder.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// has reports whether all the files are there.
func (f folder) has(names ...string) bool {
	for _, n := range names {
		if _, err := os.Stat(f.path(n)); err != nil {
			return false
		}
	}
	return true
}

// partner is the folder with the row that a trained drafter was measured on: f itself, or the one without "-trained".
func (f folder) partner() folder {
	if !f.has(stepFile) {
		return folder(strings.TrimSuffix(filepath.Clean(string(f)), "-trained"))
	}
	return f
}

func (f folder) json(name string, into any) error {
	text, err := os.ReadFile(f.path(name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", f.path(name), err)
	}
	return nil
}

// tensors reads named tensors of one file and keeps the first failure.
type tensors struct {
	*safetensors.File
	err error
}

func (f folder) open(name string) (*tensors, error) {
	file, err := safetensors.Open(f.path(name))
	if err != nil {
		return nil, err
	}
	return &tensors{File: file}, nil
}

func (t *tensors) floats(name string) []float32 {
	v, err := t.Tensor(name)
	if err == nil {
		var x []float32
		if x, err = v.Float32(); err == nil {
			return x
		}
	}
	t.err = errors.Join(t.err, err)
	return nil
}

func (t *tensors) ints(name string) []int32 {
	v, err := t.Tensor(name)
	if err == nil {
		var x []int32
		if x, err = v.Int32(); err == nil {
			return x
		}
	}
	t.err = errors.Join(t.err, err)
	return nil
}

// close reports the first failure of reading.
func (t *tensors) close() error { return errors.Join(t.err, t.File.Close()) }

// offsets turns document numbers [S] into document offsets.
func offsets(doc []int32) []int32 {
	o := []int32{0}
	for i := 1; i < len(doc); i++ {
		if doc[i] != doc[i-1] {
			o = append(o, int32(i))
		}
	}
	return append(o, int32(len(doc)))
}
