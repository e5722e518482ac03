package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func content(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("%s holds %q, %v; want %q", path, b, err, want)
	}
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := WriteFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	content(t, path, "old")
	f.Abort()
	content(t, path, "old")
	if err := WriteFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	content(t, path, "new")
	if n := names(t, dir); len(n) != 1 {
		t.Errorf("left over: %v", n)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if _, err := Create(filepath.Join(dir, "none", "f")); err == nil {
		t.Error("a file in a directory that is not there")
	}
}

func TestWriteDir(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "sub", "d")
	fill := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644) }
	}
	for _, name := range []string{"a", "b"} {
		if err := WriteDir(path, fill(name, name)); err != nil {
			t.Fatal(err)
		}
		content(t, filepath.Join(path, name), name)
	}
	broken := errors.New("disk on fire")
	err := WriteDir(path, func(dir string) error { return errors.Join(fill("c", "c")(dir), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if n := names(t, path); len(n) != 1 || n[0] != "b" {
		t.Errorf("after a failure: %v", n)
	}
	if n := names(t, filepath.Dir(path)); len(n) != 1 {
		t.Errorf("left over: %v", n)
	}
	if err := os.Mkdir(filepath.Join(root, "sub", aside+"d-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(filepath.Join(root, "sub")); err != nil {
		t.Fatal(err)
	}
	if n := names(t, filepath.Dir(path)); len(n) != 1 {
		t.Errorf("not swept: %v", n)
	}
	if err := RemoveDir(path); err != nil {
		t.Fatal(err)
	}
	if n := names(t, filepath.Dir(path)); len(n) != 0 {
		t.Errorf("not removed: %v", n)
	}
	if err := RemoveDir(path); err == nil {
		t.Error("removes what is not there")
	}
}
