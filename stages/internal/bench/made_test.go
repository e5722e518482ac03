package bench

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"penstock/schema/hf"
	"penstock/stages/internal/model"
)

func TestMadeTargetIsRead(t *testing.T) {
	const demo = "../../../deploy/demo/models/tiny-go"
	m := lookup(t, "tiny-go")
	dir := filepath.Join(t.TempDir(), "target")
	if err := MakeTarget(dir, m, demo); err != nil {
		t.Fatal(err)
	}
	got, err := hf.OpenTarget(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	want := m.Target
	if got.HiddenSize != want.HiddenSize || got.Layers != want.Layers || got.VocabSize != want.VocabSize || got.HeadDim != want.HeadDim || got.TieEmbeddings != m.Tied {
		t.Errorf("read %+v, made %+v", got.Geometry, want)
	}
	read := model.Files(got)
	for _, s := range got.Shapes() {
		v, err := read(s)
		if err != nil {
			t.Fatal(err)
		}
		var sum, squares float64
		for _, x := range v {
			sum, squares = sum+float64(x), squares+float64(x)*float64(x)
		}
		n := float64(len(v))
		mean, deviation := sum/n, math.Sqrt(squares/n-(sum/n)*(sum/n))
		if len(s.Dims) == 1 {
			if mean != 1 || deviation != 0 {
				t.Errorf("%s: mean %v, deviation %v, want ones", s.Name, mean, deviation)
			}
		} else if math.Abs(mean) > 1e-3 || math.Abs(deviation-0.02) > 1e-3 {
			t.Errorf("%s: mean %v, deviation %v, want 0 and 0.02", s.Name, mean, deviation)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Error(err)
	}
}

func TestMadeData(t *testing.T) {
	o := Options{Model: lookup(t, "tiny-go"), Lengths: lengths(t, "lognormal")}
	path := filepath.Join(t.TempDir(), "data.jsonl")
	mean, err := MakeData(path, o, 40, 100)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, tokens := 0, 0
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for ; s.Scan(); rows++ {
		var row struct {
			IDs  []int `json:"input_ids"`
			Mask []int `json:"loss_mask"`
		}
		if err := json.Unmarshal(s.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if len(row.IDs) < shortest || len(row.Mask) != len(row.IDs) {
			t.Fatalf("row %d: %d tokens, %d of the mask", rows, len(row.IDs), len(row.Mask))
		}
		for _, id := range row.IDs {
			if id < 0 || id >= 100 {
				t.Fatalf("row %d: id %d", rows, id)
			}
		}
		on := 0
		for _, m := range row.Mask {
			on += m
		}
		if share := float64(on) / float64(len(row.IDs)); share < 0.59 || share > 0.62 {
			t.Errorf("row %d: %v of it is supervised", rows, share)
		}
		tokens += len(row.IDs)
	}
	if rows != 40 || tokens/rows != mean {
		t.Errorf("%d rows of %d tokens, told %d", rows, tokens, mean)
	}
}
