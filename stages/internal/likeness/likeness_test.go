package likeness

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/schema/store"
	"penstock/stages/internal/model"
)

func target(t *testing.T) (*kernels.Ref, *hf.Target, *model.Target) {
	t.Helper()
	files, err := hf.OpenTarget("../../../deploy/demo/models/qwen3-random")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	dev := &kernels.Ref{}
	m, err := model.LoadTarget(dev, files, files.Layers)
	if err != nil {
		t.Fatal(err)
	}
	return dev, files, m
}

// docs makes a store of documents whose tokens next chooses, from the second third on supervised.
func docs(t *testing.T, vocab, count, length int, next func(ids []int32) int32) *store.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.store")
	w, err := store.Create(path, store.Info{Vocab: uint32(vocab), MaxLength: uint32(length)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i := range count {
		ids, mask := []int32{int32(i)}, []uint8{0}
		for len(ids) < length {
			ids, mask = append(ids, next(ids)), append(mask, uint8(min(len(ids)*3/length, 1)))
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

// TestForeignDataIsSeen: what the target chose or sampled itself passes; what it did not is told apart.
func TestForeignDataIsSeen(t *testing.T) {
	dev, files, m := target(t)
	r := rand.New(rand.NewPCG(1, 2))
	row := func(ids []int32) []float32 {
		s, err := m.NewSession(len(ids), nil)
		if err != nil {
			t.Fatal(err)
		}
		hidden, _, err := s.Append(ids)
		if err != nil {
			t.Fatal(err)
		}
		z := dev.Alloc(1, files.VocabSize)
		dev.Gemm(z, hidden.RowRange(len(ids)-1, len(ids)), m.Head, false, true, 0)
		return z.F32
	}
	for _, c := range []struct {
		name    string
		next    func(ids []int32) int32
		foreign bool
	}{
		{"sampled by the target", func(ids []int32) int32 {
			z, u := row(ids), r.Float64()
			for i := range z {
				p, _ := judge(z, int32(i))
				if u -= math.Exp(p); u <= 0 {
					return int32(i)
				}
			}
			return 0
		}, false},
		{"chosen by the target", func(ids []int32) int32 {
			z, best := row(ids), 0
			for i, v := range z {
				if v > z[best] {
					best = i
				}
			}
			return int32(best)
		}, false},
		{"by chance", func([]int32) int32 { return r.Int32N(int32(files.VocabSize)) }, true},
	} {
		got, err := Measure(context.Background(), dev, m, docs(t, files.VocabSize, 8, 18, c.next), 0.01)
		if err != nil {
			t.Fatal(err)
		}
		if got.Foreign != c.foreign || (got.Warning() != "") != c.foreign || got.Documents != 8 || got.Tokens == 0 {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.foreign && !strings.Contains(got.Warning(), "regen") {
			t.Errorf("warning %q", got.Warning())
		}
	}
}

func TestJudge(t *testing.T) {
	p, e := judge([]float32{1000, 1000, -1000}, 1)
	if math.Abs(p+math.Ln2) > 1e-9 || math.Abs(e+math.Ln2) > 1e-9 {
		t.Errorf("log-probability %v, expected %v, want -ln 2", p, e)
	}
}
