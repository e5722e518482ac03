package model

import (
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
)

// uploader brings tensors to a device and keeps the first failure.
type uploader struct {
	dev  kernels.Device
	fill Fill
	dims map[string][]int
	err  error
}

func newUploader(dev kernels.Device, shapes []hf.Shape, fill Fill) *uploader {
	u := &uploader{dev: dev, fill: fill, dims: make(map[string][]int)}
	for _, s := range shapes {
		u.dims[s.Name] = s.Dims
	}
	return u
}

// vector returns a tensor of float32, or the nil tensor for a name that the model does not have.
func (u *uploader) vector(name string) kernels.Tensor { return u.tensor(name, u.dev.Alloc) }

// product returns a tensor of the device's half type.
func (u *uploader) product(name string) kernels.Tensor { return u.tensor(name, u.dev.AllocHalf) }

func (u *uploader) tensor(name string, alloc func(rows, cols int) kernels.Tensor) kernels.Tensor {
	dims, ok := u.dims[name]
	if !ok || u.err != nil {
		return kernels.Tensor{}
	}
	t := alloc(matrix(dims))
	if err := u.fill(t, hf.Shape{Name: name, Dims: dims}); err != nil {
		u.err = fmt.Errorf("load %s: %w", name, err)
		return kernels.Tensor{}
	}
	return t
}

func (u *uploader) vocabulary(tied bool) Vocabulary {
	v := Vocabulary{Embedding: u.product("model." + hf.Embedding)}
	if v.Head = v.Embedding; !tied {
		v.Head = u.product(hf.Head)
	}
	return v
}

func (u *uploader) finish() error {
	if u.err != nil {
		return u.err
	}
	return u.dev.Sync()
}
