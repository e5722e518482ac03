package model

import (
	"penstock/schema/hf"
	"penstock/schema/safetensors"
)

// Source returns a tensor's values, row-major: read from a file, or made.
type Source func(s hf.Shape) ([]float32, error)

// Files is a source over an open target, drafter or file of tensors.
func Files(f interface {
	Tensor(name string) (safetensors.View, error)
}) Source {
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
