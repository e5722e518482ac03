package plan

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"penstock/schema/store"
)

func TestValid(t *testing.T) {
	for _, c := range []struct {
		mask []uint8
		want []int32
	}{
		{nil, nil}, {[]uint8{1}, nil}, {[]uint8{1, 0, 1}, nil}, {[]uint8{0, 1, 1, 0, 1, 1, 1}, []int32{1, 4, 5}},
	} {
		if got := Valid(c.mask); !slices.Equal(got, c.want) {
			t.Errorf("Valid(%v) = %v, want %v", c.mask, got, c.want)
		}
	}
}

func TestAnchors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(0, 300).Draw(t, "valid"), rapid.IntRange(-1, 400).Draw(t, "most")
		valid := make([]int32, n)
		for i := range valid {
			valid[i] = int32(3 * i)
		}
		key := rapid.Uint64().Draw(t, "key")
		got := Anchors(1, 2, key, valid, most)
		if len(got) != min(n, max(most, 0)) {
			t.Fatalf("%d anchors of %d, at most %d", len(got), n, most)
		}
		for i, a := range got {
			if i > 0 && a <= got[i-1] || a%3 != 0 {
				t.Fatalf("anchors %v", got)
			}
		}
		if !slices.Equal(got, Anchors(1, 2, key, valid, most)) {
			t.Fatal("a replay draws others")
		}
	})
}

// TestAnchorsUniform draws over many documents: every position is as likely, and so is every pair.
func TestAnchorsUniform(t *testing.T) {
	valid := []int32{0, 1, 2, 3, 4, 5}
	const draws = 30_000
	single, pairs := map[int32]int{}, map[[2]int32]int{}
	for key := range uint64(draws) {
		a := Anchors(9, 0, key, valid, 2)
		single[a[0]]++
		single[a[1]]++
		pairs[[2]int32(a)]++
	}
	for _, v := range valid {
		if share := float64(single[v]) / draws; math.Abs(share-1.0/3) > 0.012 {
			t.Errorf("position %d is drawn %.3f of the time", v, share)
		}
	}
	if len(pairs) != 15 {
		t.Errorf("%d pairs of 6 positions", len(pairs))
	}
	for pair, n := range pairs {
		if share := float64(n) / draws; math.Abs(share-1.0/15) > 0.007 {
			t.Errorf("pair %v is drawn %.3f of the time", pair, share)
		}
	}
}

func TestAnchorsDiffer(t *testing.T) {
	valid := make([]int32, 200)
	for i := range valid {
		valid[i] = int32(i)
	}
	first := Anchors(1, 0, 7, valid, 20)
	for name, other := range map[string][]int32{
		"seed": Anchors(2, 0, 7, valid, 20), "epoch": Anchors(1, 1, 7, valid, 20), "document": Anchors(1, 0, 8, valid, 20),
	} {
		if slices.Equal(first, other) {
			t.Errorf("another %s draws the same anchors", name)
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.store")
	w, err := store.Create(path, store.Info{Vocab: 100, MaxLength: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i, ids := range [][]int32{{1, 2, 3}, {4}, {5, 6}} {
		mask := make([]uint8, len(ids))
		mask[len(mask)-1] = 1
		if err := w.Add(uint64(10+i), ids, mask); err != nil {
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
	defer s.Close()
	if err := s.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := Load(s, BatchPlan{Docs: []int32{2, 0}, Tokens: 5})
	if !slices.Equal(got.IDs, []int32{5, 6, 1, 2, 3}) || !slices.Equal(got.Mask, []uint8{0, 1, 0, 0, 1}) ||
		!slices.Equal(got.Offsets, []int32{0, 2, 5}) || !slices.Equal(got.Keys, []uint64{12, 10}) {
		t.Errorf("Load = %+v", got)
	}
}
