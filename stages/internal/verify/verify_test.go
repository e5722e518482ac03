package verify

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"penstock/kernels"
	"penstock/kernels/cpu"
	"penstock/schema/safetensors"
)

const demo = "../../../deploy/demo/"

// fast is the CPU device of this machine.
func fast(t *testing.T) kernels.Device {
	t.Helper()
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

func verify(t *testing.T, dev kernels.Device, o Options) Report {
	t.Helper()
	r, err := Run(context.Background(), dev, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestGolden holds the model code to golden vectors on both host devices, well inside the published tolerances.
func TestGolden(t *testing.T) {
	tinyGo, grouped := demo+"models/tiny-go", "testdata/grouped/model"
	goals := map[string]float64{"target.": 1e-5, "dflash": 5e-6, "dpace": 5e-6, "gradient.": 1e-5, "curve.": 1e-6, "trained.": 1e-6}
	for _, c := range []struct {
		dev    kernels.Device
		o      Options
		checks int
	}{
		{fast(t), Options{TargetDir: tinyGo, GoldenDir: demo + "golden/tiny-go"}, 90},
		{fast(t), Options{TargetDir: tinyGo, GoldenDir: demo + "golden/tiny-go-trained"}, 11},
		{fast(t), Options{TargetDir: grouped, GoldenDir: "testdata/grouped/golden"}, 110},
		{&kernels.Ref{}, Options{TargetDir: grouped, GoldenDir: "testdata/grouped/golden"}, 110},
		{&kernels.Ref{}, Options{TargetDir: tinyGo, GoldenDir: demo + "golden/tiny-go-trained", Decode: 1}, 10},
	} {
		t.Run(c.dev.Name()+" "+filepath.Base(filepath.Dir(c.o.GoldenDir))+" "+filepath.Base(c.o.GoldenDir), func(t *testing.T) {
			r := verify(t, c.dev, c.o)
			if !r.OK || len(r.Checks) != c.checks {
				t.Errorf("ok %v, %d checks, want %d:\n%s", r.OK, len(r.Checks), c.checks, r)
			}
			for _, check := range r.Checks {
				for prefix, goal := range goals {
					if strings.HasPrefix(check.Name, prefix) && check.MaxRelErr > goal {
						t.Errorf("%s is off by %.2g, goal %.0e", check.Name, check.MaxRelErr, goal)
					}
				}
			}
		})
	}
}

// golden makes a folder with some of the demo folders' files.
func golden(t *testing.T, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "golden")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		text, err := os.ReadFile(filepath.Join(demo, "golden/tiny-go", n))
		if errors.Is(err, fs.ErrNotExist) {
			text, err = os.ReadFile(filepath.Join(demo, "golden/tiny-go-trained", n))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, n), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// alter changes one tensor of a file.
func alter(t *testing.T, path, name string, change func(v []float32)) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var specs []safetensors.Spec
	values := map[string]safetensors.View{}
	for _, n := range f.Names() {
		v, err := f.Tensor(n)
		if err != nil {
			t.Fatal(err)
		}
		values[n] = v
		specs = append(specs, safetensors.Spec{Name: n, DType: v.DType, Shape: v.Shape})
	}
	w, err := safetensors.Create(path, specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for n, v := range values {
		if n != name {
			err = errors.Join(err, w.Raw(n, v.Bytes))
			continue
		}
		x, e := v.Float32()
		change(x)
		err = errors.Join(err, e, w.Float32(n, x))
	}
	if err := errors.Join(err, w.Commit(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// replace changes the first occurrence of a text in a file.
func replace(t *testing.T, path, old, new string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestWrongAnswersAreFound: each change to a golden file fails the checks that it concerns, and no other.
func TestWrongAnswersAreFound(t *testing.T) {
	step := []string{configFile, initFile, stepFile}
	for _, c := range []struct {
		name   string
		files  []string
		change func(t *testing.T, dir string)
		failed []string
	}{
		{"token", []string{tokenizerFile}, func(t *testing.T, dir string) {
			replace(t, filepath.Join(dir, tokenizerFile), `"ids": [`, `"ids": [3, `)
		}, []string{"tokenizer.ids"}},
		{"mask", []string{chatFile}, func(t *testing.T, dir string) {
			replace(t, filepath.Join(dir, chatFile), `"assistant_mask": [0`, `"assistant_mask": [1`)
		}, []string{"chat.assistant_mask"}},
		{"loss of one slot", step, func(t *testing.T, dir string) {
			alter(t, filepath.Join(dir, stepFile), "ce", func(v []float32) {
				for i := range v {
					v[i] *= 1.001
				}
			})
		}, []string{"dflash.ce"}},
		{"weight of one slot", step, func(t *testing.T, dir string) {
			alter(t, filepath.Join(dir, stepFile), "weight", func(v []float32) { v[0] = 1 - v[0] })
		}, []string{"dflash.ce", "dflash.weight"}},
		{"captures of one tap", []string{configFile, forwardFile}, func(t *testing.T, dir string) {
			alter(t, filepath.Join(dir, forwardFile), "hidden", func(v []float32) { v[130] += 1 })
		}, []string{"target.captures.layer_2"}},
		{"not a number", append(step, gradFile), func(t *testing.T, dir string) {
			alter(t, filepath.Join(dir, gradFile), "norm.weight", func(v []float32) { v[3] = float32(math.NaN()) })
		}, []string{"gradient.norm.weight"}},
		{"hits", []string{trainedFile, slotsFile, stepFile, configFile}, func(t *testing.T, dir string) {
			alter(t, filepath.Join(dir, slotsFile), "accept", func(v []float32) { v[0]++ })
		}, []string{"trained.accept"}},
		{"rounds", []string{trainedFile, decodeFile}, func(t *testing.T, dir string) {
			replace(t, filepath.Join(dir, decodeFile), `"accepted_per_round": [4`, `"accepted_per_round": [3`)
		}, []string{"decode.accepted_per_round"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := golden(t, c.files...)
			c.change(t, dir)
			r := verify(t, fast(t), Options{TargetDir: demo + "models/tiny-go", GoldenDir: dir, Decode: 1})
			failed := map[string]bool{}
			for _, check := range r.Checks {
				if !check.OK {
					failed[check.Name] = true
				}
			}
			if got := slices.Sorted(maps.Keys(failed)); !slices.Equal(got, c.failed) || r.OK {
				t.Errorf("failed %v, want %v", got, c.failed)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadFolders(t *testing.T) {
	run := func(target, golden string) error {
		_, err := Run(context.Background(), &kernels.Ref{}, Options{TargetDir: target, GoldenDir: golden})
		return err
	}
	target := demo + "models/tiny-go"
	if err := run(target, t.TempDir()); err == nil || !strings.Contains(err.Error(), "no golden file") {
		t.Errorf("an empty folder: %v", err)
	}
	for file, text := range map[string]string{summaryFile: "{}", decodeFile: `{"tokens_per_round": 1}`} {
		dir := golden(t, configFile, initFile, stepFile, trainedFile)
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := run(target, dir); err == nil || !strings.Contains(err.Error(), file+" holds nothing to compare: want ") {
			t.Errorf("%s that says nothing: %v", file, err)
		}
	}
	dir := golden(t)
	if err := os.WriteFile(filepath.Join(dir, tokenizerFile), []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := verify(t, &kernels.Ref{}, Options{TargetDir: target, GoldenDir: dir}); r.OK {
		t.Errorf("no texts to tokenise:\n%s", r)
	}
	if err := run(filepath.Join(t.TempDir(), "none"), demo+"golden/tiny-go"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no target: %v", err)
	}
	dir = golden(t, configFile, initFile, stepFile)
	replace(t, filepath.Join(dir, configFile), `"hidden_size": 128`, `"hidden_size": 64`)
	if err := run(target, dir); err == nil || !strings.Contains(err.Error(), "hidden_size is 64") {
		t.Errorf("a drafter of another target: %v", err)
	}
	dir = golden(t, chatFile)
	if err := os.Truncate(filepath.Join(dir, chatFile), 100); err != nil {
		t.Fatal(err)
	}
	if err := run(target, dir); err == nil || !strings.Contains(err.Error(), chatFile) {
		t.Errorf("a torn file: %v", err)
	}
}
