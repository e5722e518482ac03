package store

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

var info = Info{Data: [32]byte{1}, Tokenizer: [32]byte{2}, Template: [32]byte{3}, Vocab: 1000, MaxLength: 100}

type document struct {
	key  uint64
	ids  []int32
	mask []uint8
}

// write makes a store of docs and returns its path.
func write(tb testing.TB, dir string, docs ...document) string {
	tb.Helper()
	path := filepath.Join(dir, "a.store")
	w, err := Create(path, info)
	if err != nil {
		tb.Fatal(err)
	}
	defer w.Abort()
	for _, d := range docs {
		if err := w.Add(d.key, d.ids, d.mask); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		tb.Fatal(err)
	}
	return path
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	doc := rapid.Custom(func(t *rapid.T) document {
		ids := rapid.SliceOfN(rapid.Int32Range(0, 999), 1, 100).Draw(t, "ids")
		return document{rapid.Uint64().Draw(t, "key"), ids, rapid.SliceOfN(rapid.Uint8Range(0, 1), len(ids), len(ids)).Draw(t, "mask")}
	})
	rapid.Check(t, func(rt *rapid.T) {
		docs := rapid.SliceOfN(doc, 0, 20).Draw(rt, "docs")
		s, err := Open(write(t, dir, docs...))
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		if err := s.Verify(context.Background()); err != nil {
			rt.Fatal(err)
		}
		if s.Len() != len(docs) || s.Info() != info {
			rt.Fatalf("%d documents of %v, want %d of %v", s.Len(), s.Info(), len(docs), info)
		}
		tokens, supervised := 0, 0
		for i, d := range docs {
			ids, mask := s.Doc(i)
			if !slices.Equal(ids, d.ids) || !slices.Equal(mask.AppendTo(nil), d.mask) || mask.Len() != len(ids) || s.Length(i) != len(ids) || s.Key(i) != d.key {
				rt.Fatalf("document %d is %v, %v, want %v", i, ids, mask, d)
			}
			for j, m := range d.mask {
				if mask.At(j) != (m == 1) {
					rt.Fatalf("document %d, token %d: mask %t", i, j, mask.At(j))
				}
				supervised += int(m)
			}
			tokens += len(ids)
		}
		if s.Tokens() != tokens || s.Supervised() != supervised {
			rt.Fatalf("%d tokens, %d supervised, want %d, %d", s.Tokens(), s.Supervised(), tokens, supervised)
		}
	})
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("writing left %v, %v", left, err)
	}
}

func TestAddRefuses(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "a.store"), info)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]document{
		"empty":          {},
		"short mask":     {ids: []int32{1, 2}, mask: []uint8{1}},
		"too long":       {ids: make([]int32, 101), mask: make([]uint8, 101)},
		"negative":       {ids: []int32{-1}, mask: []uint8{1}},
		"out of the set": {ids: []int32{1000}, mask: []uint8{1}},
	} {
		if err := w.Add(d.key, d.ids, d.mask); err == nil {
			t.Errorf("%s: added", name)
		}
	}
	w.Abort()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("an aborted store leaves %v", left)
	}
	if _, err := Create(filepath.Join(dir, "none", "a.store"), info); err == nil {
		t.Error("created in a directory that is not there")
	}
}

func TestDamage(t *testing.T) {
	path := write(t, t.TempDir(), document{7, []int32{1, 2, 3}, []uint8{0, 1, 1}}, document{8, []int32{4}, []uint8{1}})
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	index := len(good) - 2*entrySize
	resum := func(b []byte) {
		binary.LittleEndian.PutUint64(b[headerSize-8-80-8:], xxhash.Sum64(b[index:]))
		binary.LittleEndian.PutUint64(b[headerSize-8:], xxhash.Sum64(b[:headerSize-8]))
	}
	for _, c := range []struct {
		name   string
		damage func(b []byte) []byte
		says   string
		late   bool // found by Verify alone
	}{
		{"empty", func(b []byte) []byte { return nil }, "fewer than its header", false},
		{"torn in the header", func(b []byte) []byte { return b[:100] }, "fewer than its header", false},
		{"torn in the blocks", func(b []byte) []byte { return b[:headerSize+8] }, "its header says", false},
		{"one byte short", func(b []byte) []byte { return b[:len(b)-1] }, "its header says", false},
		{"one byte long", func(b []byte) []byte { return append(b, 0) }, "its header says", false},
		{"another file", func(b []byte) []byte { b[0] = 'X'; return b }, "does not start", false},
		{"another version", func(b []byte) []byte { b[8] = 9; return b }, "version 9", false},
		{"header altered", func(b []byte) []byte { b[40] ^= 1; return b }, "header does not match", false},
		{"index altered", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "index does not match", false},
		{"index wrong", func(b []byte) []byte { b[index] = 1; resum(b); return b }, "entry of document 0", false},
		{"index past the end", func(b []byte) []byte { b[index+entrySize+8] = 90; resum(b); return b }, "do not add up", false},
		{"block altered", func(b []byte) []byte { b[headerSize] ^= 1; return b }, "match their checksum", true},
	} {
		path := filepath.Join(t.TempDir(), "b.store")
		if err := os.WriteFile(path, c.damage(slices.Clone(good)), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if c.late && err == nil {
			err = s.Verify(context.Background())
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.says)
		}
		if c.name != "another version" && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v is not ErrDamaged", c.name, err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a store that is not there: %v", err)
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a directory opens")
	}
}

func TestVerifyStops(t *testing.T) {
	s, err := Open(write(t, t.TempDir(), document{7, []int32{1}, []uint8{1}}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify with an ended context: %v", err)
	}
}

// FuzzOpen mends the checksums of what it is given, so that everything behind them is reached.
func FuzzOpen(f *testing.F) {
	for _, docs := range [][]document{nil, {{7, []int32{1, 2, 3}, []uint8{0, 1, 1}}}, {{1, []int32{4}, []uint8{1}}, {2, []int32{5}, []uint8{0}}}} {
		data, err := os.ReadFile(write(f, f.TempDir(), docs...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		data = slices.Clone(data)
		if len(data) >= headerSize {
			h, _ := decodeHeader(data, int64(len(data)))
			if h.BlockBytes <= uint64(len(data)-headerSize) {
				binary.LittleEndian.PutUint64(data[headerSize-8-80-8:], xxhash.Sum64(data[headerSize+h.BlockBytes:]))
				binary.LittleEndian.PutUint64(data[headerSize-8-80-16:], xxhash.Sum64(data[headerSize:headerSize+h.BlockBytes]))
			}
			binary.LittleEndian.PutUint64(data[headerSize-8:], xxhash.Sum64(data[:headerSize-8]))
		}
		s, err := parse(data)
		if err != nil {
			return
		}
		for i := range s.Len() {
			ids, mask := s.Doc(i)
			if len(ids) != s.Length(i) || len(mask.AppendTo(nil)) != len(ids) {
				t.Fatalf("document %d has %d ids, %d mask entries, length %d", i, len(ids), mask.Len(), s.Length(i))
			}
		}
		_ = s.Verify(context.Background())
	})
}

func TestName(t *testing.T) {
	if got, want := info.Name(), "01"+strings.Repeat("00", 15); got != want {
		t.Errorf("Name() = %q, want %q", got, want)
	}
}

func TestHeaderSize(t *testing.T) {
	if n := binary.Size(header{}); n != headerSize {
		t.Errorf("the header takes %d bytes, want %d", n, headerSize)
	}
	if n := binary.Size(entry{}); n != entrySize {
		t.Errorf("an index entry takes %d bytes, want %d", n, entrySize)
	}
}
