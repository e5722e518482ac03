package rundir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func names(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(home); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "thesis.tex") {
		t.Errorf("a foreign directory: %v", err)
	}
	if got := names(t, home); got != "thesis.tex" {
		t.Errorf("it holds %s", got)
	}
	empty := t.TempDir()
	for range 2 { // empty, then with the folders of a run that never began
		if _, err := Make(empty); err != nil {
			t.Error(err)
		}
	}
	d, err := Make(empty)
	if err != nil {
		t.Fatal(err)
	}
	for _, write := range []func() error{func() error { return d.WriteConfig(nil) }, func() error { return d.WriteURL("x") }} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Make(empty); err != nil {
		t.Errorf("a run's own directory: %v", err)
	}
}

func TestUnmake(t *testing.T) {
	fill := func(d *Dir, err error) *Dir {
		t.Helper()
		if err == nil {
			err = d.WriteConfig([]byte("seed: 1\n"))
		}
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	unmake := func(d *Dir) {
		t.Helper()
		if err := d.Unmake(); err != nil {
			t.Error(err)
		}
	}
	work := t.TempDir()
	unmake(fill(Make(filepath.Join(work, "a", "b", "run"))))
	root := filepath.Join(work, "runs")
	first, second := fill(Create(root, "tiny", time.Now())), fill(Create(root, "tiny", time.Now()))
	unmake(first)
	if got := names(t, root); got != filepath.Base(second.Path()) {
		t.Errorf("beside the run that is gone: %s, want %s", got, filepath.Base(second.Path()))
	}
	unmake(first) // gone already
	unmake(second)
	if got := names(t, work); got != "runs" { // it was there when the second was made
		t.Errorf("left over: %s", got)
	}

	there := filepath.Join(work, "there")
	if err := os.MkdirAll(filepath.Join(there, "logs"), 0o755); err != nil {
		t.Fatal(err)
	}
	unmake(fill(Make(there)))
	if got := names(t, there); got != "logs" {
		t.Errorf("of a directory that was there: %s", got)
	}
	opened := fill(Make(there))
	if opened, err := Open(there); err != nil {
		t.Fatal(err)
	} else {
		unmake(opened)
	}
	if b, err := opened.Config(); err != nil || b == nil {
		t.Errorf("an opened run's configuration: %q, %v", b, err)
	}
}
