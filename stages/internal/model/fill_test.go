package model

import (
	"path/filepath"
	"slices"
	"testing"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/schema/safetensors"
)

// halving is a device whose half type is BFloat16; it keeps what it was given, by the address of the tensor.
type halving struct {
	kernels.Ref
	end    uintptr
	values map[uintptr][]float32
	bytes  map[uintptr][]byte
}

func (*halving) Half() kernels.Type { return kernels.BFloat16 }

func (d *halving) AllocHalf(rows, cols int) kernels.Tensor {
	d.end += 256
	return kernels.Tensor{Rows: rows, Cols: cols, Type: kernels.BFloat16, Ptr: d.end}
}

func (d *halving) Alloc(rows, cols int) kernels.Tensor {
	t := d.AllocHalf(rows, cols)
	t.Type = kernels.Float32
	return t
}

func (d *halving) Upload(dst kernels.Tensor, src []float32) { d.values[dst.Ptr] = src }

func (d *halving) UploadBytes(dst kernels.Tensor, src []byte) {
	kernels.WantBytes("UploadBytes", dst, src)
	d.bytes[dst.Ptr] = src
}

// The weights of products go to a device of bfloat16 as they lie in the file; norms become float32.
func TestFileBytesGoToTheDevice(t *testing.T) {
	files, err := hf.OpenTarget("../../../deploy/demo/models/tiny-go")
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	dev := &halving{values: map[uintptr][]float32{}, bytes: map[uintptr][]byte{}}
	m, err := LoadTarget(dev, files, 2)
	if err != nil {
		t.Fatal(err)
	}
	for name, tensor := range map[string]kernels.Tensor{
		"model." + hf.Embedding:                 m.Embedding,
		"model." + hf.LayerName(1, hf.DownProj): m.layers[1].down,
		"model." + hf.LayerName(0, hf.QProj):    m.layers[0].q,
	} {
		v, err := files.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := dev.bytes[tensor.Ptr]; tensor.Type != kernels.BFloat16 || len(got) == 0 || &got[0] != &v.Bytes[0] {
			t.Errorf("%s: %d bytes for a tensor of %v, want those of the file", name, len(got), tensor.Type)
		}
	}
	for _, norm := range []kernels.Tensor{m.norm, m.layers[1].qNorm, m.layers[0].postNorm} {
		if norm.Type != kernels.Float32 || len(dev.values[norm.Ptr]) != norm.Len() {
			t.Errorf("a norm of %v with %d values", norm.Type, len(dev.values[norm.Ptr]))
		}
	}
}

// A file of float32 fills a set as it lies there; one of bfloat16 is widened.
func TestLoadFile(t *testing.T) {
	for _, as := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
		path := filepath.Join(t.TempDir(), "f")
		var specs []safetensors.Spec
		for _, s := range twoTensors {
			specs = append(specs, safetensors.Spec{Name: s.Name, DType: as, Shape: s.Dims})
		}
		w, err := safetensors.Create(path, specs, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		want := filled(&kernels.Ref{}, 1)
		for i, s := range twoTensors {
			v := want.views[i].F32
			for j, x := range v {
				v[j] = safetensors.BF16ToFloat32(safetensors.BF16FromFloat32(x))
			}
			if err := w.Float32(s.Name, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p := NewParams(&kernels.Ref{}, twoTensors)
		if err := p.LoadFile(f); err != nil || !slices.Equal(p.Flat.F32, want.Flat.F32) {
			t.Errorf("%s: %v, want %v (%v)", as, p.Flat.F32, want.Flat.F32, err)
		}
		dev := &halving{values: map[uintptr][]float32{}, bytes: map[uintptr][]byte{}}
		to := dev.Alloc(matrix(twoTensors[0].Dims))
		if s := twoTensors[0]; as == safetensors.F32 {
			v, _ := f.Tensor(s.Name)
			if err := fromFile(dev, f)(to, s); err != nil || len(dev.bytes[to.Ptr]) == 0 || &dev.bytes[to.Ptr][0] != &v.Bytes[0] {
				t.Errorf("not the file's own bytes: %v", err)
			}
		}
		for _, bad := range []hf.Shape{{Name: "c", Dims: []int{1}}, {Name: twoTensors[0].Name, Dims: []int{1}}} {
			if err := fromFile(dev, f)(to, bad); err == nil {
				t.Errorf("%s: %v is filled", as, bad)
			}
		}
	}
}

func TestRepeat(t *testing.T) {
	dev := &kernels.Ref{}
	fill, values := Repeat(dev, 3), make([]float32, repeated)
	x, norm := dev.Alloc(3, repeated/2), dev.Alloc(1, 5)
	for _, c := range []struct {
		to kernels.Tensor
		s  hf.Shape
	}{{x, hf.Shape{Name: "w", Dims: []int{3, repeated / 2}}}, {norm, hf.Shape{Name: "norm", Dims: []int{5}}}} {
		if err := fill(c.to, c.s); err != nil {
			t.Fatal(err)
		}
	}
	copy(values, x.F32)
	if slices.Max(values) < 2*initStd || !slices.Equal(x.F32[repeated:], values[:repeated/2]) {
		t.Error("the values are not repeated")
	}
	if !slices.Equal(norm.F32, []float32{1, 1, 1, 1, 1}) {
		t.Errorf("a norm of %v", norm.F32)
	}
}
