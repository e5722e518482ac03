package model

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"penstock/kernels"
	"penstock/schema/hf"
)

func TestParams(t *testing.T) {
	dev := &kernels.Ref{}
	p := filled(dev, 1)
	if p.Flat.Len() != sumRow {
		t.Errorf("flat has %d elements", p.Flat.Len())
	}
	if name, w := p.At(1); name != "b.weight" || w.Rows != 1 || w.Cols != 7 {
		t.Errorf("entry 1 is %q %d×%d", name, w.Rows, w.Cols)
	}
	q := p.Like()
	if q.Len() != 2 || dev.SumSquares(q.Flat) != 0 {
		t.Error("Like is not an empty set of the same tensors")
	}
	q.Add(p)
	q.Add(p)
	got, err := q.Read("a.weight")
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range p.Tensor("a.weight").F32 {
		if got[i] != 2*v {
			t.Fatalf("element %d of the sum is %v, want %v", i, got[i], 2*v)
		}
	}
	part := make([]float32, 3)
	if err := q.ReadAt(part, "a.weight", 2); err != nil || !slices.Equal(part, got[2:5]) {
		t.Errorf("elements 2 to 4 are %v, %v, want %v", part, err, got[2:5])
	}
	if sum, err := q.Checksum(); err != nil || sum != kernels.CheckSum(q.Flat.F32) {
		t.Errorf("checksum %x, %v", sum, err)
	}
	if q.Zero(); dev.SumSquares(q.Flat) != 0 {
		t.Error("Zero leaves something")
	}
	if err := q.ReadAt(part, "c", 0); err == nil {
		t.Error("reads a part of a tensor that is not there")
	}
	if _, err := q.Read("c"); err == nil || !q.Tensor("c").IsNil() {
		t.Errorf("a tensor that is not there: %v", err)
	}
}

func TestLoadReportsTheSource(t *testing.T) {
	p := NewParams(&kernels.Ref{}, twoTensors)
	broken := errors.New("torn")
	if err := p.Load(func(hf.Shape) ([]float32, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v, want the source's", err)
	}
	short := func(hf.Shape) ([]float32, error) { return make([]float32, 15), nil }
	if err := p.Load(short); err == nil || !strings.Contains(err.Error(), "b.weight") {
		t.Errorf("error %v, want one that names b.weight", err)
	}
	if err := p.Load(InitRandom(7)); err != nil || !slices.Contains(p.Tensor("b.weight").F32, 1) {
		t.Errorf("load: %v", err)
	}
}
