package hf

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A configuration that passes describes tensors of sane sizes.
func FuzzConfig(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(demoTarget), "*", ConfigFile))
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range append(paths, filepath.Join(demoGolden, "drafter_config.json")) {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var c config
		if json.Unmarshal(text, &c) != nil {
			return
		}
		var shapes []Shape
		if fam, err := findFamily(&c); err == nil {
			if d, err := fam.read(&c); err == nil {
				shapes = fam.tensors(d.Geometry)
			}
		}
		if d, err := c.drafter(); err == nil && d.Validate() == nil {
			shapes = append(shapes, d.Shapes()...)
			for i := range d.Layers {
				if w := d.LayerWindow(i); w < 0 {
					t.Fatalf("window %d", w)
				}
			}
		}
		for _, s := range shapes {
			for _, d := range s.Dims {
				if d < 1 {
					t.Fatalf("%s has shape %v", s.Name, s.Dims)
				}
			}
		}
	})
}
