package model

import (
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
)

// uploader brings tensors to a device and keeps the first failure.
type uploader struct {
	dev  kernels.Device
	from Source
	dims map[string][]int
	err  error
}

func newUploader(dev kernels.Device, shapes []hf.Shape, from Source) *uploader {
	u := &uploader{dev: dev, from: from, dims: make(map[string][]int)}
	for _, s := range shapes {
		u.dims[s.Name] = s.Dims
	}
	return u
}

// tensor returns the nil tensor for a name that the model does not have.
func (u *uploader) tensor(name string) kernels.Tensor {
	dims, ok := u.dims[name]
	if !ok || u.err != nil {
		return kernels.Tensor{}
	}
	v, err := u.from(hf.Shape{Name: name, Dims: dims})
	if err != nil {
		u.err = fmt.Errorf("load %s: %w", name, err)
		return kernels.Tensor{}
	}
	t := u.dev.Alloc(matrix(dims))
	u.dev.Upload(t, v)
	return t
}

func (u *uploader) vocabulary(tied bool) Vocabulary {
	v := Vocabulary{Embedding: u.tensor("model." + hf.Embedding)}
	if v.Head = v.Embedding; !tied {
		v.Head = u.tensor(hf.Head)
	}
	return v
}

func (u *uploader) finish() error {
	if u.err != nil {
		return u.err
	}
	return u.dev.Sync()
}
