package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNameStaysAndIsTheRunsOwn(t *testing.T) {
	work := t.TempDir()
	make := func(elem ...string) *Dir {
		t.Helper()
		d, err := Make(filepath.Join(append([]string{work}, elem...)...))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, other := make("a", "run"), make("b", "run")
	if !strings.HasPrefix(a.Name(), "run-") || a.Name() == other.Name() {
		t.Errorf("names %q and %q", a.Name(), other.Name())
	}
	if again := make("a", "run"); again.Name() != a.Name() {
		t.Errorf("another process calls %q %q", a.Name(), again.Name())
	}
	if err := a.WriteConfig([]byte("seed: 1\n")); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(work, "moved")
	if err := os.Rename(a.Path(), moved); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(moved); err != nil || d.Name() != a.Name() {
		t.Errorf("moved: %v, %v; want %q", d, err, a.Name())
	}
	if err := os.Remove(filepath.Join(moved, "name")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // of a run that was begun without a name
		if d, err := Open(moved); err != nil || d.Name() != "moved" {
			t.Errorf("without a name: %v, %v", d, err)
		}
		if d := make("moved"); d.Name() != "moved" {
			t.Errorf("without a name: %q", d.Name())
		}
	}
}
