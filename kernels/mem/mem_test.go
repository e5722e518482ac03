package mem

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"penstock/kernels"
	"penstock/schema"
)

func TestMain(m *testing.M) {
	for name, own := range owners {
		if dir := os.Getenv(name); dir != "" {
			os.Exit(own(dir))
		}
	}
	goleak.VerifyTestMain(m)
}

func spec(dir string) Spec {
	return Spec{Kind: "shm", Pool: "target-0", Incarnation: 77, Slots: 3, SlotBytes: 5000, RunDir: dir}
}

func create(t testing.TB, s Spec) *Slab {
	t.Helper()
	slab, err := Create(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := slab.Close(); err != nil {
			t.Error(err)
		}
	})
	return slab
}

func importer(t testing.TB, dir string) *Importer {
	t.Helper()
	i := NewImporter(dir)
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

func open(t testing.TB, i *Importer, info schema.PoolInfo) *View {
	t.Helper()
	v, err := i.Open(t.Context(), info)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ref(info schema.PoolInfo, slot uint32, generation uint64) schema.SlotRef {
	return schema.SlotRef{Pool: info.Pool, Incarnation: info.Incarnation, Slot: slot, Generation: generation}
}

func TestHandOver(t *testing.T) {
	dir := t.TempDir()
	slab := create(t, spec(dir))
	info := slab.Info()
	if page := uint64(os.Getpagesize()); info.SlotBytes%page != 0 || info.SlotBytes < 5000 || info.Slots != 3 || info.Device != -1 {
		t.Fatalf("info %+v", info)
	}
	v := open(t, importer(t, dir), info)
	for slot := range info.Slots {
		slab.SetGeneration(slot, uint64(slot)+1)
		x, err := slab.Tensor(slot, 3, 5)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.F32 {
			x.F32[i] = float32(100*int(slot) + i)
		}
	}
	for slot := range info.Slots {
		calls := 0
		err := v.Read(ref(info, slot, uint64(slot)+1), 5, 3, func(x kernels.Tensor) error {
			calls++
			if x.Rows != 5 || x.Cols != 3 {
				t.Errorf("shape %d×%d", x.Rows, x.Cols)
			}
			for i, got := range x.F32 {
				if got != float32(100*int(slot)+i) {
					t.Fatalf("slot %d, element %d: %v", slot, i, got)
				}
			}
			return nil
		})
		if err != nil || calls != 1 {
			t.Fatalf("slot %d: %v after %d calls", slot, err, calls)
		}
	}
	if got, err := v.Generation(2); err != nil || got != 3 {
		t.Errorf("generation %d, %v", got, err)
	}
}

func TestReadRefusesOtherUses(t *testing.T) {
	dir := t.TempDir()
	slab := create(t, spec(dir))
	info := slab.Info()
	v := open(t, importer(t, dir), info)
	slab.SetGeneration(1, 5)
	good := ref(info, 1, 5)
	never := func(kernels.Tensor) error { t.Error("read"); return nil }
	for name, c := range map[string]struct {
		change     func(*schema.SlotRef)
		rows, cols int
		want       error
	}{
		"pool":        {func(r *schema.SlotRef) { r.Pool = "x" }, 1, 1, ErrStale},
		"incarnation": {func(r *schema.SlotRef) { r.Incarnation++ }, 1, 1, ErrStale},
		"generation":  {func(r *schema.SlotRef) { r.Generation-- }, 1, 1, ErrStale},
		"never used":  {func(r *schema.SlotRef) { r.Slot = 0 }, 1, 1, ErrStale},
		"slot":        {func(r *schema.SlotRef) { r.Slot = 3 }, 1, 1, ErrForged},
		"huge slot":   {func(r *schema.SlotRef) { r.Slot = 1<<32 - 1 }, 1, 1, ErrForged},
		"rows":        {func(*schema.SlotRef) {}, int(info.SlotBytes), 1, ErrForged},
		"product":     {func(*schema.SlotRef) {}, 1 << 40, 1 << 40, ErrForged},
		"negative":    {func(*schema.SlotRef) {}, -1, 4, ErrForged},
	} {
		r := good
		c.change(&r)
		if err := v.Read(r, c.rows, c.cols, never); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if _, err := v.Generation(3); !errors.Is(err, ErrForged) {
		t.Errorf("generation of a slot that is not there: %v", err)
	}
	mine := errors.New("f's own")
	if err := v.Read(good, 1, 1, func(kernels.Tensor) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("got %v, want f's error", err)
	}
	err := v.Read(good, 1, 1, func(kernels.Tensor) error { slab.SetGeneration(1, 6); return nil })
	if !errors.Is(err, ErrStale) {
		t.Errorf("taken for something else while it was read: %v", err)
	}
	if err := v.Read(ref(info, 1, 6), 0, 4, func(x kernels.Tensor) error { return nil }); err != nil {
		t.Errorf("no rows: %v", err)
	}
}

func TestOpenIsCachedByIncarnation(t *testing.T) {
	dir := t.TempDir()
	i := importer(t, dir)
	first := create(t, spec(dir))
	v := open(t, i, first.Info())
	if again := open(t, i, first.Info()); again != v {
		t.Error("opened twice")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next := spec(dir)
	next.Incarnation++
	second := create(t, next)
	if w := open(t, i, second.Info()); w == v {
		t.Error("the old view for the new incarnation")
	}
	if err := v.Read(ref(first.Info(), 0, 0), 1, 1, func(kernels.Tensor) error { return nil }); !errors.Is(err, ErrStale) {
		t.Errorf("the old view is unmapped: %v", err)
	}
	if _, err := i.Open(t.Context(), first.Info()); !errors.Is(err, ErrStale) {
		t.Errorf("the old incarnation after the new one: %v", err)
	}
	if err := i.Drop("target-0"); err != nil {
		t.Fatal(err)
	}
	if err := i.Drop("target-0"); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// TestDropWaitsForReaders unmaps and remaps while others read and the owner moves on.
func TestDropWaitsForReaders(t *testing.T) {
	dir := t.TempDir()
	slab := create(t, spec(dir))
	i := importer(t, dir)
	info := slab.Info()
	var stop atomic.Bool
	var reads, stale atomic.Int64
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				v, err := i.Open(t.Context(), info)
				if err != nil {
					t.Error(err)
					return
				}
				gen, err := v.Generation(0)
				if err == nil {
					err = v.Read(ref(info, 0, gen), 1, 1000, func(x kernels.Tensor) error {
						first := x.F32[0]
						for _, f := range x.F32 {
							first += f
						}
						return nil
					})
				}
				switch {
				case err == nil:
					reads.Add(1)
				case errors.Is(err, ErrStale):
					stale.Add(1)
				case !errors.Is(err, ErrClosed):
					t.Error(err)
				}
			}
		})
	}
	for n := uint64(1); n < 300 || reads.Load() < 100; n++ {
		slab.SetGeneration(0, n)
		if err := i.Drop(info.Pool); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d reads, %d stale", reads.Load(), stale.Load())
}

func TestCreateRefuses(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"kind":           func(s *Spec) { s.Kind = "core" },
		"no name":        func(s *Spec) { s.Pool = "" },
		"path as name":   func(s *Spec) { s.Pool = "../x" },
		"long name":      func(s *Spec) { s.Pool = strings.Repeat("x", 65) },
		"no incarnation": func(s *Spec) { s.Incarnation = 0 },
		"no slots":       func(s *Spec) { s.Slots = 0 },
		"negative":       func(s *Spec) { s.SlotBytes = -1 },
		"too large":      func(s *Spec) { s.Slots, s.SlotBytes = 1<<16, 1<<40 },
		"no directory":   func(s *Spec) { s.RunDir = filepath.Join(s.RunDir, "none") },
	} {
		s := spec(t.TempDir())
		change(&s)
		if slab, err := Create(s); err == nil {
			t.Errorf("%s: made", name)
			slab.Close()
		}
	}
}

func TestClosedSlab(t *testing.T) {
	dir := t.TempDir()
	slab := create(t, spec(dir))
	if err := slab.Close(); err != nil {
		t.Fatal(err)
	}
	slab.SetGeneration(0, 1)
	if _, err := slab.Tensor(0, 1, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("tensor: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "target-0.maps" {
		t.Errorf("left over beside the lock: %v, %v", left, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	s := spec(dir)
	s.Slots, s.SlotBytes = 4, 64<<20
	slab := create(b, s)
	i := importer(b, dir)
	for b.Loop() {
		if _, err := i.Open(context.Background(), slab.Info()); err != nil {
			b.Fatal(err)
		}
		if err := i.Drop("target-0"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	slab := create(b, spec(dir))
	v := open(b, importer(b, dir), slab.Info())
	for b.Loop() {
		if err := v.Read(ref(slab.Info(), 0, 0), 1, 1, func(kernels.Tensor) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
