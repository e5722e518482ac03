// Package tools tests the scripts that stand below it.
package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeNVCC answers for RELEASE of the toolkit, writes its arguments to a line of CALLS, and fails on the source BAD.
const fakeNVCC = `#!/usr/bin/env bash
if [ "$1" = --version ]; then echo "Cuda compilation tools, release $RELEASE, V$RELEASE.1"; exit; fi
echo "$*" >>"$CALLS"
for a; do
  if [ "$before" = -o ]; then out=$a; fi
  before=$a
done
if [ "$(basename "$before")" = "$BAD" ]; then exit 2; fi
echo "$*" >"$out"
`

// Sources to copy: all, and a few of which some are compiled for both half types.
const all, few = "*", "s*"

// tree is a copy of what the script builds from, and where it builds to.
type tree struct {
	t                      *testing.T
	src, out, script, home string
}

func newTree(t *testing.T, pattern string) *tree {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a copy")
	w := &tree{t, filepath.Join(dir, "kernels/cuda/src"), filepath.Join(dir, "built"), filepath.Join(dir, "deploy/tools/cuda/kernels"), filepath.Join(dir, "cuda")}
	files, err := filepath.Glob("../../kernels/cuda/src/" + pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		w.write(filepath.Join(w.src, filepath.Base(f)), string(b))
	}
	script, err := os.ReadFile("cuda/kernels")
	if err != nil {
		t.Fatal(err)
	}
	w.write(w.script, string(script))
	w.write(filepath.Join(w.home, "bin/nvcc"), fakeNVCC)
	return w
}

func (w *tree) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

// build runs the script and returns the arguments that nvcc got, a call each, and what the script said.
func (w *tree) build(env []string, archs ...string) (calls []string, said string, err error) {
	log := filepath.Join(w.t.TempDir(), "calls")
	cmd := exec.Command(w.script, append([]string{w.out}, archs...)...)
	cmd.Env = append(append(os.Environ(), "CUDA_HOME="+w.home, "NVCC=", "NVCCFLAGS=", "RELEASE=12.4", "BAD=", "CALLS="+log), env...)
	b, err := cmd.CombinedOutput()
	text, rerr := os.ReadFile(log)
	if rerr != nil && !os.IsNotExist(rerr) {
		w.t.Fatal(rerr)
	}
	return slices.Sorted(strings.Lines(string(text))), string(b), err
}

// must builds and returns the number of calls.
func (w *tree) must(env []string, archs ...string) int {
	w.t.Helper()
	calls, said, err := w.build(env, archs...)
	if err != nil {
		w.t.Fatalf("%v: %s", err, said)
	}
	return len(calls)
}

// sources are the fat binaries that there are to be, each with whether it is of the half type that a definition chooses.
func (w *tree) sources() map[string]bool {
	files, err := filepath.Glob(filepath.Join(w.src, "*.cu"))
	if err != nil || len(files) < 3 {
		w.t.Fatalf("%d sources, %v", len(files), err)
	}
	want := map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			w.t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(f), ".cu")
		if strings.Contains("\n"+string(b), "\n#include \"half.cuh\"") {
			want[name+".float32.fatbin"], want[name+".bfloat16.fatbin"] = false, true
		} else {
			want[name+".fatbin"] = false
		}
	}
	return want
}

// TestKernelArchitectures: each source is compiled, once for each half type, for what the toolkit knows, or for what is asked.
func TestKernelArchitectures(t *testing.T) {
	w := newTree(t, all)
	want := w.sources()
	for _, c := range []struct {
		release string
		archs   []string
		codes   string
	}{
		{"11.8", nil, "80:sm_80 89:sm_89 90:sm_90 90:compute_90"},
		{"12.4", nil, "80:sm_80 89:sm_89 90a:sm_90a 90:compute_90"},
		{"12.8", nil, "80:sm_80 89:sm_89 90a:sm_90a 100:sm_100 100:compute_100"},
		{"12.9", nil, "80:sm_80 89:sm_89 90a:sm_90a 100:sm_100 100:compute_100"},
		{"13.0", nil, "80:sm_80 89:sm_89 90a:sm_90a 100:sm_100 100:compute_100"},
		{"13.0", []string{"90a"}, "90a:sm_90a"},
		{"12.4", []string{"80", "89"}, "80:sm_80 89:sm_89"},
	} {
		calls, said, err := w.build([]string{"RELEASE=" + c.release}, c.archs...)
		if err != nil {
			t.Fatalf("%s: %v: %s", c.release, err, said)
		}
		got := map[string]bool{}
		for _, call := range calls {
			var codes []string
			for _, arg := range strings.Fields(call) {
				if gen, ok := strings.CutPrefix(arg, "-gencode=arch=compute_"); ok {
					codes = append(codes, strings.Replace(gen, ",code=", ":", 1))
				}
			}
			if strings.Join(codes, " ") != c.codes {
				t.Errorf("%s, %q: compiled for %q, want %q", c.release, c.archs, codes, c.codes)
			}
			_, file, _ := strings.Cut(call, w.out+"/")
			name, _, _ := strings.Cut(file, " ")
			got[name] = strings.Contains(call, " -DHALF_BF16 ")
		}
		if d := cmp.Diff(want, got); d != "" || len(calls) != len(want) {
			t.Errorf("%s: %d calls: %s", c.release, len(calls), d)
		}
	}
}

// TestKernelsAreBuiltOnce: what is there of the same sources, flags and compiler stays, and nothing else does.
func TestKernelsAreBuiltOnce(t *testing.T) {
	w := newTree(t, few)
	n := len(w.sources())
	one := filepath.Join(w.out, "sum_squares.fatbin")
	for _, c := range []struct {
		what   string
		change func()
		env    []string
		archs  []string
		calls  int
	}{
		{"the first time", func() {}, nil, nil, n},
		{"again", func() {}, nil, nil, 0},
		{"with another header", func() { w.write(filepath.Join(w.src, "common.cuh"), "// other\n") }, nil, nil, n},
		{"again", func() {}, nil, nil, 0},
		{"with a source more", func() { w.write(filepath.Join(w.src, "more.cu"), "// more\n") }, nil, nil, n + 1},
		{"with a source less", func() { w.remove(filepath.Join(w.src, "more.cu")) }, nil, nil, n},
		{"without a fat binary", func() { w.remove(one) }, nil, nil, n},
		{"with a damaged fat binary", func() { w.write(one, "damaged") }, nil, nil, n},
		{"for one architecture", func() {}, nil, []string{"90a"}, n},
		{"by another compiler", func() {}, []string{"RELEASE=12.5"}, []string{"90a"}, n},
		{"by it again", func() {}, []string{"RELEASE=12.5"}, []string{"90a"}, 0},
		{"with flags", func() {}, []string{"RELEASE=12.5", "NVCCFLAGS=-lineinfo"}, []string{"90a"}, n},
	} {
		c.change()
		if got := w.must(c.env, c.archs...); got != c.calls {
			t.Errorf("%s: %d calls of nvcc, want %d", c.what, got, c.calls)
		}
	}
	if _, err := os.Stat(filepath.Join(w.out, "more.fatbin")); !os.IsNotExist(err) {
		t.Errorf("the fat binary of a source that is gone: %v", err)
	}
}

func (w *tree) remove(path string) {
	w.t.Helper()
	if err := os.Remove(path); err != nil {
		w.t.Fatal(err)
	}
}

// TestKernelsThatDoNotCompile: the error names the file, and nothing counts as built.
func TestKernelsThatDoNotCompile(t *testing.T) {
	w := newTree(t, few)
	for _, bad := range []string{"swiglu.cu", "scale.cu"} {
		_, said, err := w.build([]string{"BAD=" + bad})
		if err == nil || !strings.Contains(said, "kernels: "+bad+" does not compile") {
			t.Errorf("%s does not compile: %v, %q", bad, err, said)
		}
	}
	if got, want := w.must(nil), len(w.sources()); got != want {
		t.Errorf("%d calls of nvcc afterwards, want %d", got, want)
	}
}

// TestKernelCompilerIsFound: by name, in CUDA_HOME, on the PATH; without one the script says what to do.
func TestKernelCompilerIsFound(t *testing.T) {
	w := newTree(t, few)
	nvcc, nowhere := filepath.Join(w.home, "bin/nvcc"), "CUDA_HOME="+filepath.Join(w.home, "none")
	n := len(w.sources())
	for i, env := range [][]string{
		{nowhere, "NVCC=" + nvcc}, {}, {nowhere, "PATH=" + filepath.Dir(nvcc) + ":" + os.Getenv("PATH")},
	} {
		if got := w.must(append(env, fmt.Sprintf("NVCCFLAGS=-D%d", i))); got != n {
			t.Errorf("%q: %d calls of nvcc, want %d", env, got, n)
		}
	}
	bare := filepath.Join(w.home, "bare")
	for _, tool := range []string{"bash", "dirname"} {
		path, err := exec.LookPath(tool)
		if err == nil {
			err = os.MkdirAll(bare, 0o755)
		}
		if err == nil {
			err = os.Symlink(path, filepath.Join(bare, tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, said, err := w.build([]string{nowhere, "PATH=" + bare}); err == nil || !strings.Contains(said, "kernels: no nvcc: install the CUDA toolkit") {
		t.Errorf("without nvcc: %v, %q", err, said)
	}
}
