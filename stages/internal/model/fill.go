package model

import (
	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/schema/safetensors"
)

// Fill sets one tensor of a device.
type Fill func(dst kernels.Tensor, s hf.Shape) error

// fromSource uploads a source's values.
func fromSource(dev kernels.Device, from Source) Fill {
	return func(dst kernels.Tensor, s hf.Shape) error {
		v, err := from(s)
		if err == nil {
			dev.Upload(dst, v)
		}
		return err
	}
}

// stored is what the types are called in a file.
var stored = map[kernels.Type]safetensors.DType{kernels.Float32: safetensors.F32, kernels.BFloat16: safetensors.BF16}

// fromFile uploads the tensors of a mapped file: as its bytes where its type is the tensor's.
func fromFile(dev kernels.Device, f File) Fill {
	values := fromSource(dev, Files(f))
	return func(dst kernels.Tensor, s hf.Shape) error {
		v, err := f.Tensor(s.Name)
		if err != nil {
			return err
		}
		if v.DType != stored[dst.Type] {
			return values(dst, s)
		}
		if err := v.Expect(s.Dims...); err != nil {
			return err
		}
		dev.UploadBytes(dst, v.Bytes)
		return nil
	}
}

// repeated is how many values Repeat makes.
const repeated = 1 << 20

// Repeat fills matrices with one run of the values of InitRandom over and over, on the device: for weights that only have to
// be there. Vectors are as InitRandom makes them.
func Repeat(dev kernels.Device, seed uint64) Fill {
	random := InitRandom(seed)
	values, _ := random(hf.Shape{Name: "repeated", Dims: []int{repeated, 1}})
	run := dev.AllocHalf(repeated, 1)
	dev.Upload(run, values)
	vector := fromSource(dev, random)
	return func(dst kernels.Tensor, s hf.Shape) error {
		if len(s.Dims) == 1 {
			return vector(dst, s)
		}
		column := dst.Reshape(dst.Len(), 1)
		for at := 0; at < column.Rows; at += repeated {
			n := min(repeated, column.Rows-at)
			dev.Copy(column.RowRange(at, at+n), run.RowRange(0, n))
		}
		return nil
	}
}
