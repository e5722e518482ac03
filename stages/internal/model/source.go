package model

import (
	"penstock/schema/hf"
	"penstock/schema/safetensors"
)

// Source returns a tensor's values, row-major: read from a file, or made.
type Source func(s hf.Shape) ([]float32, error)

// File is an open target, drafter or file of tensors.
type File interface {
	Tensor(name string) (safetensors.View, error)
}

// Files is a source over a file.
func Files(f File) Source {
	return func(s hf.Shape) ([]float32, error) {
		v, err := f.Tensor(s.Name)
		if err != nil {
			return nil, err
		}
		if err := v.Expect(s.Dims...); err != nil {
			return nil, err
		}
		return v.Float32()
	}
}
