package features

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/schema/safetensors"
	"penstock/schema/store"
	"penstock/stages/internal/model"
)

var taps = []int{0, 2}

func target(t *testing.T) (kernels.Device, *model.Target, int) {
	t.Helper()
	files, err := hf.OpenTarget("../../../deploy/demo/models/qwen2-random")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	dev := &kernels.Ref{}
	m, err := model.LoadTarget(dev, files, 3)
	if err != nil {
		t.Fatal(err)
	}
	return dev, m, files.HiddenSize
}

func documents(t *testing.T, lengths ...int) *store.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.store")
	w, err := store.Create(path, store.Info{Data: [32]byte{1}, Vocab: 393, MaxLength: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i, n := range lengths {
		ids, mask := make([]int32, n), make([]uint8, n)
		for j := range ids {
			ids[j], mask[j] = int32((7*i+31*j)%393), 1
		}
		if err := w.Add(uint64(i), ids, mask); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// pack puts documents one behind the other.
func pack(s *store.Store, docs ...int32) (ids, offsets []int32) {
	offsets = []int32{0}
	for _, d := range docs {
		doc, _ := s.Doc(int(d))
		ids = append(ids, doc...)
		offsets = append(offsets, int32(len(ids)))
	}
	return ids, offsets
}

// TestStoredFeaturesAreTheForward: what is read back in any packing is what the target computes.
func TestStoredFeaturesAreTheForward(t *testing.T) {
	dev, m, hidden := target(t)
	s := documents(t, 9, 30, 1, 29, 14)
	for _, dtype := range []safetensors.DType{safetensors.F32, safetensors.BF16} {
		o := Options{Dir: filepath.Join(t.TempDir(), "features"), Taps: taps, Hidden: hidden, DType: dtype, tokens: 30}
		note, err := Write(context.Background(), dev, m, s, o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(note.Starts, []int{0, 2, 4}) {
			t.Errorf("files start at %v", note.Starts)
		}
		r, err := Open(o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Check(s.Info().Name(), taps, hidden); err != nil {
			t.Error(err)
		}
		docs := []int32{3, 0, 2, 4}
		ids, offsets := pack(s, docs...)
		want, got := dev.Alloc(2*len(ids), hidden), dev.Alloc(2*len(ids), hidden)
		if err := errors.Join(m.Forward(ids, offsets, taps, want), r.Load(dev, docs, ids, offsets, got)); err != nil {
			t.Fatal(err)
		}
		for i, x := range want.F32 {
			if dtype == safetensors.BF16 {
				x = safetensors.BF16ToFloat32(safetensors.BF16FromFloat32(x))
			}
			if got.F32[i] != x {
				t.Fatalf("%s: element %d is %g, want %g", dtype, i, got.F32[i], x)
			}
		}
	}
}

// TestResume keeps whole files, and makes torn and missing ones again.
func TestResume(t *testing.T) {
	dev, m, hidden := target(t)
	s := documents(t, 9, 30, 1, 29, 14)
	o := Options{Dir: t.TempDir(), Taps: taps, Hidden: hidden, DType: safetensors.F32, tokens: 30}
	if _, err := Write(context.Background(), dev, m, s, o); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for n := range 3 {
		b, err := os.ReadFile(fileName(o.Dir, n))
		if err != nil {
			t.Fatal(err)
		}
		want[fileName(o.Dir, n)] = string(b)
	}
	info, err := os.Stat(fileName(o.Dir, 2))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(o.Dir, noteFile)), os.Remove(fileName(o.Dir, 0)), os.Truncate(fileName(o.Dir, 1), 500)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(o.Dir); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("unfinished features: %v", err)
	}
	if _, err := Write(context.Background(), dev, m, s, o); err != nil {
		t.Fatal(err)
	}
	for path, text := range want {
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%s is not what it was, %v", path, err)
		}
	}
	if again, err := os.Stat(fileName(o.Dir, 2)); err != nil || !again.ModTime().Equal(info.ModTime()) {
		t.Errorf("a whole file was made again, %v", err)
	}
}

func TestRefusals(t *testing.T) {
	dev, m, hidden := target(t)
	s := documents(t, 5, 6)
	o := Options{Dir: t.TempDir(), Target: "old", Taps: taps, Hidden: hidden, DType: safetensors.F32}
	if _, err := Write(context.Background(), dev, m, s, o); err != nil {
		t.Fatal(err)
	}
	r, err := Open(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for want, err := range map[string]error{
		"the run has other":   r.Check("other", taps, hidden),
		"taps [0 2], the run": r.Check(s.Info().Name(), []int{1, 2}, hidden),
		"hidden size 40":      r.Check(s.Info().Name(), taps, 41),
		"another target, old": r.CheckTarget("new"),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	ids, offsets := pack(s, 0)
	out := dev.Alloc(2*len(ids), hidden)
	ids[2]++
	if err := r.Load(dev, []int32{0}, ids, offsets, out); err == nil || !strings.Contains(err.Error(), "document 0: they were made of other tokens") {
		t.Errorf("other tokens: %v", err)
	}
	if err := r.Load(dev, []int32{7}, ids, offsets, out); err == nil || !strings.Contains(err.Error(), "only 2") {
		t.Errorf("a document that is not there: %v", err)
	}
	o.Taps = []int{0, 1}
	if _, err := Write(context.Background(), dev, m, s, o); err == nil || !strings.Contains(err.Error(), "made with taps [0 2]") {
		t.Errorf("a folder of other taps: %v", err)
	}
	o.Taps, o.Target = taps, "new"
	if _, err := Write(context.Background(), dev, m, s, o); err == nil || !strings.Contains(err.Error(), "made by another target, old, the run has new") {
		t.Errorf("a folder of another target: %v", err)
	}
	o.Target, o.DType = "old", safetensors.BF16
	if _, err := Write(context.Background(), dev, m, s, o); err == nil || !strings.Contains(err.Error(), "kept as F32, not BF16") {
		t.Errorf("a folder of another type: %v", err)
	}
	o.DType, o.Dir = safetensors.F16, t.TempDir()
	if _, err := Write(context.Background(), dev, m, s, o); err == nil {
		t.Error("writes F16")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o.DType = safetensors.F32
	if _, err := Write(ctx, dev, m, s, o); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}
