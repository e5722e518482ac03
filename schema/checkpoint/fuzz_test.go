package checkpoint

import (
	"os"
	"path/filepath"
	"testing"
)

// Whatever stands in a checkpoint's files, opening it is an error or gives what was saved.
func FuzzOpen(f *testing.F) {
	s := testState(3)
	dir, err := Save(f.TempDir(), s, tensors(s, 1), 1)
	if err != nil {
		f.Fatal(err)
	}
	var saved [2][]byte
	for i, name := range []string{manifestFile, stateFile} {
		if saved[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(saved[0], saved[1])
	f.Add([]byte(`{"format":1,"files":{"../state.json":{"size":1,"sha256":""}}}`), []byte(`{"window":-1}`))
	f.Add([]byte(`{"format":1,"files":null}`), []byte(`{"totals":{"loss":1e999}}`))
	f.Fuzz(func(t *testing.T, manifest, state []byte) {
		for name, b := range map[string][]byte{manifestFile: manifest, stateFile: state} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if c, err := Open(dir); err == nil {
			if c.Window != s.Window || c.Data != s.Data {
				t.Fatalf("opens as %+v", c.State)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = readState(dir) // an error or not, no panic
	})
}
