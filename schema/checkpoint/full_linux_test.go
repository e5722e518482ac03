package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"penstock/schema/hf"
	"penstock/schema/safetensors"
)

// fillDisk puts the device that is always full in the place of the file that is being written under root with that name.
func fillDisk(t *testing.T, root, name string) {
	t.Helper()
	full, err := unix.Open("/dev/full", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(full)
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path, err := os.Readlink(f)
		if err != nil || !strings.HasPrefix(path, root) || !strings.Contains(filepath.Base(path), name) {
			continue
		}
		fd := 0
		for _, digit := range filepath.Base(f) {
			fd = 10*fd + int(digit-'0')
		}
		if err := unix.Dup3(full, fd, unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no open file %s under %s", name, root)
}

// A disk that is full in the middle of one of the files: nothing appears, one error says which file, no goroutine is left, and
// the checkpoint before stays.
func TestFullDiskLeavesNothing(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	save(t, root, 1, 2)
	for i, name := range []string{safetensors.SingleFile, firstMoment, secondMoment} {
		s := testState(2)
		s.Drafter.HiddenSize, s.Drafter.TargetHiddenSize = 1536, 1536 // fc takes more than one chunk
		ts := tensors(2)
		from := []*hf.Source{&ts.Weights, &ts.M, &ts.V}[i]
		source, filled := *from, false
		*from = func(dst []float32, tensor string, at int) error {
			if tensor == hf.FC && at > 0 && !filled {
				fillDisk(t, root, name)
				filled = true
			}
			return source(dst, tensor, at)
		}
		_, err := Save(root, s, ts, 2)
		if !filled || !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", name, err)
		}
		goleak.VerifyNone(t)
		if left, _ := os.ReadDir(root); len(left) != 1 {
			t.Errorf("%s: left over: %v", name, left)
		}
	}
	c, bad, err := Latest(root)
	if err != nil || len(bad) > 0 {
		t.Fatal(err, bad)
	}
	defer c.Close()
	check(t, c)
}
