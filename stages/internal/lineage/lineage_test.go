package lineage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// grid is a plan of w windows of two batches of two documents each; batch b holds documents 2b and 2b+1.
type grid struct{ w int }

func (g grid) Windows() int                       { return g.w }
func (g grid) Planned(w uint32) []uint32          { return []uint32{2 * w, 2*w + 1} }
func (g grid) Members(b uint32) (uint32, []int32) { return 0, []int32{int32(2 * b), int32(2*b + 1)} }
func (g grid) Key(d int32) uint64                 { return uint64(d) * 0x9e3779b97f4a7c15 }

func commit(g grid, gen, w uint32, batches, dead []uint32) Line {
	l := Line{Gen: gen, Window: w, Batches: batches, Dead: dead}
	for _, b := range batches {
		_, docs := g.Members(b)
		for _, d := range docs {
			l.Keys += g.Key(d)
		}
	}
	return l
}

func TestCount(t *testing.T) {
	g := grid{3}
	open := func(gen, start uint32) Line { return Line{Gen: gen, Open: true, Window: start} }
	both := func(gen, w uint32) Line { return commit(g, gen, w, g.Planned(w), nil) }
	for _, c := range []struct {
		name  string
		lines []Line
		want  Report
	}{
		{"whole", []Line{open(1, 0), both(1, 0), both(1, 1), both(1, 2)}, Report{Batches: 6, Documents: 12, Windows: 3, Planned: 3}},
		{"rolled back", []Line{open(1, 0), both(1, 0), both(1, 1), open(2, 1), both(2, 1), both(2, 2)}, Report{Batches: 6, Documents: 12, Windows: 3, Planned: 3}},
		{"late line of a dead generation", []Line{open(1, 0), both(1, 0), open(2, 1), both(1, 1), both(2, 1)}, Report{Batches: 4, Documents: 8, Windows: 2, Planned: 3}},
		{"lost window", []Line{open(1, 0), both(1, 0), both(1, 2)}, Report{Batches: 4, Documents: 8, Missing: 4, Windows: 2, Planned: 3}},
		{"trained twice", []Line{open(1, 0), both(1, 0), both(1, 0), both(1, 1)}, Report{Batches: 6, Documents: 12, Duplicates: 4, Windows: 3, Planned: 3}},
		{"rejected", []Line{open(1, 0), commit(g, 1, 0, []uint32{0}, []uint32{1})}, Report{Batches: 1, Documents: 2, Rejected: 2, Windows: 1, Planned: 3}},
		{"batch left out", []Line{open(1, 0), commit(g, 1, 0, []uint32{0}, nil)}, Report{Batches: 1, Documents: 2, Missing: 2, Windows: 1, Planned: 3}},
		{"other documents", []Line{open(1, 0), func() Line { l := both(1, 0); l.Keys++; return l }()}, Report{Batches: 2, Documents: 4, Mismatched: 1, Windows: 1, Planned: 3}},
	} {
		if d := cmp.Diff(c.want, Count(c.lines, g)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestTornLastLineIsCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{Gen: 1, Open: true}, {Gen: 1, Window: 0, Batches: []uint32{0, 1}}}
	for _, l := range want {
		if err := w.Append(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"gen":1,"win`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, err := Read(path); err != nil || !cmp.Equal(got, want) {
		t.Fatalf("read with a torn line: %v, %v", got, err)
	}
	if w, err = Open(path); err != nil {
		t.Fatal(err)
	}
	next := Line{Gen: 1, Window: 1, Batches: []uint32{2}}
	if err := w.Append(next); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got, err := Read(path); err != nil || !cmp.Equal(got, append(want, next)) {
		t.Fatalf("after reopening: %v, %v", got, err)
	}
}
