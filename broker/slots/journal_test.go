package slots

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func journal(t testing.TB, uses ...Use) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal")
	j, err := CreateJournal(path, "target-0", 1<<63+5, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range uses {
		j.put(u)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

var (
	first = Use{Slot: 0, Generation: 1, Batch: batch(2, 40), Root: "$JS.ACK.PS_FWD.fwd-1-b64.1.40.41.1795975635448432820.3"}
	third = Use{Slot: 2, Generation: 9, Batch: batch(3, 41), Root: "$JS.ACK.PS_FWD.fwd-1-b64.2.41.42.1795975635448432820.0"}
)

func TestJournalSurvivesItsOwner(t *testing.T) {
	got, err := ReadJournal(journal(t, first, third))
	if err != nil || got.Pool != "target-0" || got.Incarnation != 1<<63+5 || !slices.Equal(got.Uses, []Use{first, third}) {
		t.Fatalf("read %+v, %v", got, err)
	}
}

// TestTornEntry damages one entry at every byte and length in turn.
func TestTornEntry(t *testing.T) {
	path := journal(t, first, third)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	end := blockSize + blockHead + int(whole[blockSize]) + int(whole[blockSize+1])<<8
	for at := blockSize; at < end; at++ {
		torn := slices.Clone(whole)
		torn[at] ^= 0x55
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := ReadJournal(path)
		if err != nil || !slices.Equal(got.Uses, []Use{third}) {
			t.Fatalf("byte %d damaged: %+v, %v", at, got.Uses, err)
		}
	}
}

func TestNotAJournal(t *testing.T) {
	whole, err := os.ReadFile(journal(t, first))
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	damaged[20]++
	for name, content := range map[string][]byte{
		"empty": nil, "short": whole[:100], "cut": whole[:len(whole)-blockSize], "cut in a block": whole[:len(whole)-1],
		"long": append(slices.Clone(whole), 0), "header damaged": damaged, "zeros": make([]byte, len(whole)),
	} {
		path := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadJournal(path); !errors.Is(err, ErrJournal) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: read %+v, %v; want ErrJournal that names the file", name, got, err)
		}
	}
	if _, err := ReadJournal(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := CreateJournal(filepath.Join(t.TempDir(), "no", "folder"), "p", 1, 1); err == nil {
		t.Error("made a journal in a folder that is not there")
	}
	if _, err := CreateJournal(filepath.Join(t.TempDir(), "j"), strings.Repeat("p", 2000), 1, 1); err == nil {
		t.Error("made a journal whose header does not fit")
	}
}

func TestOversizeUseIsLeftOut(t *testing.T) {
	big := first
	big.Root = strings.Repeat("x", blockSize)
	got, err := ReadJournal(journal(t, big, third))
	if err != nil || !slices.Equal(got.Uses, []Use{third}) {
		t.Fatalf("read %+v, %v", got, err)
	}
}

func FuzzReadJournal(f *testing.F) {
	whole, err := os.ReadFile(journal(f, first, third))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:blockSize])
	path := filepath.Join(f.TempDir(), "j")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := ReadJournal(path)
		if err == nil && len(j.Uses) > len(b)/blockSize {
			t.Fatalf("%d uses out of %d bytes", len(j.Uses), len(b))
		}
	})
}

func BenchmarkTakeRelease(b *testing.B) {
	j, err := CreateJournal(filepath.Join(b.TempDir(), "j"), "p", 1, 4)
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	p, err := New(Config{Pool: "p", Incarnation: 1, Slots: 4, Journal: j})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		ref, ok := p.Take(first.Batch, first.Root, always)
		if !ok || !p.Release(ref) {
			b.Fatal("not taken or not released")
		}
	}
}
