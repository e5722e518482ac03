package checkpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/schema/hf"
)

// Whatever stands in a checkpoint's files, opening it is an error or gives what was saved.
func FuzzOpen(f *testing.F) {
	s := testState(3)
	dir, err := Save(f.TempDir(), s, tensors(1), 1)
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

// FuzzListed puts anything in the place of a checkpoint's files and lists it in the manifest as it is, so that the hashes are
// right: opening it is an error or gives tensors of the shapes that its own configuration names.
func FuzzListed(f *testing.F) {
	s := testState(3)
	dir, err := Save(f.TempDir(), s, tensors(1), 1)
	if err != nil {
		f.Fatal(err)
	}
	names := [4]string{stateFile, configFile, hf.ConfigFile, firstMoment}
	saved := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		saved[name] = string(b)
	}
	add := func(changed, text string) {
		var files [4][]byte
		for i, name := range names {
			if files[i] = []byte(saved[name]); name == changed {
				files[i] = []byte(text)
			}
		}
		f.Add(files[0], files[1], files[2], files[3])
	}
	add("", "")
	for _, name := range names {
		whole := saved[name]
		for _, text := range []string{"", whole[:len(whole)/2], whole + whole, "\x00" + whole, "null", "{}"} {
			add(name, text)
		}
	}
	for _, change := range []struct{ name, from, to string }{
		{stateFile, `"window": 3`, `"window": -1`}, {stateFile, `"window": 3`, `"window": 4294967296`}, {stateFile, `"seed": 7`, `"seed": 1e400`},
		{stateFile, `"batches": 9`, `"batches": [9]`}, {configFile, "seed:", "seed: &a [*a]\nx:"}, {configFile, "/models/t", "../../etc"},
		{hf.ConfigFile, `"hidden_size": 8`, `"hidden_size": 1073741824`}, {hf.ConfigFile, `"hidden_size": 8`, `"hidden_size": -8`},
		{hf.ConfigFile, `"num_hidden_layers": 1`, `"num_hidden_layers": 1000000000`}, {hf.ConfigFile, `"head_dim": 4`, `"head_dim": 9223372036854775807`},
		{firstMoment, "F32", "F64"}, {firstMoment, "F32", "U8"}, {firstMoment, `"data_offsets":[0,`, `"data_offsets":[9223372036854775807,`},
		{firstMoment, `"shape":[`, `"shape":[4294967296,4294967296,`},
	} {
		text := strings.Replace(saved[change.name], change.from, change.to, 1)
		if text == saved[change.name] {
			f.Fatalf("%s has no %s", change.name, change.from)
		}
		add(change.name, text)
	}
	f.Fuzz(func(t *testing.T, state, config, drafter, moment []byte) {
		for i, b := range [][]byte{state, config, drafter, moment} {
			if err := os.WriteFile(filepath.Join(dir, names[i]), b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(filepath.Join(dir, manifestFile)); err != nil {
			t.Fatal(err)
		}
		if err := writeManifest(dir, nil); err != nil {
			t.Fatal(err)
		}
		c, err := Open(dir)
		if err != nil {
			return
		}
		defer c.Close()
		for _, shape := range c.Drafter.Shapes() {
			want := 1
			for _, d := range shape.Dims {
				want *= d
			}
			for _, f := range []*hf.Drafter{c.Weights, c.M, c.V} {
				if x, err := f.Float32(shape.Name); err == nil && len(x) != want {
					t.Fatalf("%s has %d values, want %d", shape.Name, len(x), want)
				}
			}
		}
	})
}
