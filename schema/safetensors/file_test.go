package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// decoded is a tensor read by the few lines of readIndependently.
type decoded struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
	data    []byte
}

// readIndependently shares no code with the package: a second opinion on the format.
func readIndependently(t interface{ Fatal(...any) }, path string) map[string]decoded {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(b)
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(b[8:8+n], &entries); err != nil {
		t.Fatal(err)
	}
	out := map[string]decoded{}
	for name, text := range entries {
		if name == "__metadata__" {
			continue
		}
		var d decoded
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatal(err)
		}
		d.data = b[8+n:][d.Offsets[0]:d.Offsets[1]]
		out[name] = d
	}
	return out
}

func writeFile(t interface{ Fatal(...any) }, path string, specs []Spec, values map[string][]float32) {
	w, err := Create(path, specs, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for name, v := range values {
		if err := w.Float32(name, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestWriteRead(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		path := filepath.Join(dir, "w.safetensors")
		values := map[string][]float32{}
		var specs []Spec
		for _, name := range rapid.SliceOfNDistinct(rapid.StringN(1, 8, 20), 0, 6, rapid.ID).Draw(t, "names") {
			shape := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")
			v := rapid.SliceOfN(rapid.Float32(), product(shape), product(shape)).Draw(t, "values")
			specs = append(specs, Spec{name, rapid.SampledFrom([]DType{F32, BF16}).Draw(t, "dtype"), shape})
			values[name] = v
		}
		writeFile(t, path, specs, values)
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		second := readIndependently(t, path)
		if len(f.Names()) != len(specs) || len(second) != len(specs) || f.Metadata()["format"] != "pt" {
			t.Fatalf("%d and %d names for %d, metadata %v", len(f.Names()), len(second), len(specs), f.Metadata())
		}
		for _, s := range specs {
			v, err := f.Tensor(s.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Expect(s.Shape...); err != nil {
				t.Fatal(err)
			}
			got, err := v.Float32()
			if err != nil {
				t.Fatal(err)
			}
			if d := second[s.Name]; !slices.Equal(d.data, v.Bytes) || DType(d.DType) != s.DType || !slices.Equal(d.Shape, s.Shape) {
				t.Fatalf("%q read independently is %v", s.Name, d)
			}
			for i, w := range values[s.Name] {
				if s.DType == BF16 {
					w = BF16ToFloat32(BF16FromFloat32(w))
				}
				if math.Float32bits(got[i]) != math.Float32bits(w) {
					t.Fatalf("%q[%d] is %g, want %g", s.Name, i, got[i], w)
				}
			}
		}
	})
}

// The demo model, written by another program, reads the same both ways.
func TestReadForeignFile(t *testing.T) {
	path := "../../deploy/demo/models/tiny-go/model.safetensors"
	d, err := OpenDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	second := readIndependently(t, path)
	if len(d.Names()) != len(second) {
		t.Fatalf("%d names, %d read independently", len(d.Names()), len(second))
	}
	for _, n := range d.Names() {
		v, err := d.Tensor(n)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Float32()
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if bits := uint32(binary.LittleEndian.Uint16(second[n].data[2*i:])) << 16; math.Float32bits(got[i]) != bits {
				t.Fatalf("%s[%d] is %g", n, i, got[i])
			}
		}
	}
}

func TestConversions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.safetensors")
	data := map[DType][]byte{
		F64: binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.5)), F32: binary.LittleEndian.AppendUint32(nil, math.Float32bits(-2)),
		F16: {0x00, 0x3e}, BF16: {0xc0, 0x3f}, F8E4M3: {0x3c}, F8E5M2: {0x3e},
		I64: binary.LittleEndian.AppendUint64(nil, 1<<63), I32: {0xff, 0xff, 0xff, 0xff}, I16: {0xfe, 0xff}, I8: {0x80}, U8: {0xff}, Bool: {1},
	}
	var specs []Spec
	for d := range data {
		specs = append(specs, Spec{string(d), d, nil})
	}
	w, err := Create(path, specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	for d, b := range data {
		if err := w.Raw(string(d), b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d, want := range map[DType]float32{F64: 1.5, F32: -2, F16: 1.5, BF16: 1.5, F8E4M3: 1.5, F8E5M2: 1.5} {
		v, _ := f.Tensor(string(d))
		if got, err := v.Float32(); err != nil || got[0] != want {
			t.Errorf("%s: %v, %v", d, got, err)
		}
		if _, err := v.Int64(); err == nil || !strings.Contains(err.Error(), "want an integer type") {
			t.Errorf("%s as integers: %v", d, err)
		}
	}
	for d, want := range map[DType]int64{I64: math.MinInt64, I32: -1, I16: -2, I8: -128, U8: 255, Bool: 1} {
		v, _ := f.Tensor(string(d))
		got, err := v.Int64()
		if err != nil || got[0] != want {
			t.Errorf("%s: %v, %v", d, got, err)
		}
		if narrow, err := v.Int32(); d == I64 != (err != nil) || err == nil && int64(narrow[0]) != want {
			t.Errorf("%s as 32 bits: %v, %v", d, narrow, err)
		}
		if _, err := v.Float32(); err == nil || !strings.Contains(err.Error(), "want a floating-point type") {
			t.Errorf("%s as floats: %v", d, err)
		}
	}
	if _, err := f.Tensor("x"); err == nil || !strings.Contains(err.Error(), `holds no tensor "x"`) {
		t.Errorf("no such tensor: %v", err)
	}
	v, _ := f.Tensor("F32")
	if err := v.Expect(2); err == nil {
		t.Error("a wrong shape passes")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Tensor("F32"); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}

func TestWriterRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.safetensors")
	for _, specs := range [][]Spec{
		{{"a", "F4", nil}}, {{"a", F32, nil}, {"a", F32, nil}}, {{metadataKey, F32, nil}}, {{"a", F32, []int{-1}}}, {{"a", F32, []int{1 << 40, 1 << 40}}},
	} {
		if _, err := Create(path, specs, nil); err == nil {
			t.Errorf("%v is taken", specs)
		}
	}
	w, err := Create(path, []Spec{{"a", F32, []int{2}}, {"n", I64, nil}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string][]float32{"b": {1, 2}, "a": {1}, "n": {1}} {
		if err := w.Float32(name, v); err == nil {
			t.Errorf("%s of %d values is taken", name, len(v))
		}
	}
	if err := w.Raw("n", []byte{1}); err == nil {
		t.Error("too few bytes are taken")
	}
	if err := w.Float32("a", []float32{1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := w.Float32("a", []float32{1, 2}); err == nil {
		t.Error("a second write is taken")
	}
	if err := w.Commit(); err == nil || !strings.Contains(err.Error(), `tensor "n" was not written`) {
		t.Errorf("commit of a part: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestOpenDirShards(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "one.safetensors"), []Spec{{"a", F32, []int{1}}}, map[string][]float32{"a": {1}})
	writeFile(t, filepath.Join(dir, "two.safetensors"), []Spec{{"b", F32, []int{1}}}, map[string][]float32{"b": {2}})
	index := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, IndexFile), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	index(`{"metadata":{"total_size":8},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}}`)
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(d.Names(), []string{"a", "b"}) {
		t.Errorf("names %v", d.Names())
	}
	v, err := d.Tensor("b")
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := v.Float32(); got[0] != 2 {
		t.Errorf("b is %v", got)
	}
	if _, err := d.Tensor("c"); err == nil {
		t.Error("there is a tensor c")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{`: "unexpected end", `{}`: "has no weight_map",
		`{"weight_map":{"a":"gone.safetensors"}}`:    `tensor "a": ` + filepath.Join(dir, "gone.safetensors") + ": no such file",
		`{"weight_map":{"b":"one.safetensors"}}`:     `tensor "b" is not in one.safetensors`,
		`{"weight_map":{"a":"../one.safetensors"}}`:  "is not a file name in the directory",
		`{"weight_map":{"a":"sub/one.safetensors"}}`: "is not a file name in the directory",
	} {
		index(text)
		if _, err := OpenDir(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("index %s: %v", text, err)
		}
	}
	if _, err := OpenDir(t.TempDir()); err == nil || !strings.Contains(err.Error(), "has neither model.safetensors nor") {
		t.Errorf("empty directory: %v", err)
	}
}
