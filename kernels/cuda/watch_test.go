//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	base "penstock/kernels"
)

const failing = "PENSTOCK_TEST_FAILING" // set for a process that breaks its GPU's context

func init() { children[failing] = failsIdle }

// failsIdle reads where there is no memory, asks for nothing more, and prints what it is told.
func failsIdle(string) error {
	d, err := Open(0, base.BFloat16)
	if err != nil {
		return err
	}
	told := make(chan error, 1)
	d.OnFailure(func(err error) { told <- err })
	x := d.Alloc(1, 1024)
	d.Add(x, base.Tensor{Rows: 1, Cols: 1024, Ptr: 4096})
	select {
	case err = <-told:
	case <-time.After(tolerable):
		return errors.New("told nothing")
	}
	fmt.Println(err)
	if d.Sync() == nil {
		return errors.New("Sync succeeds")
	}
	return nil
}

// A GPU that fails while nothing is asked of it says so, once.
func TestFailureWithNothingToDo(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), failing+"=1")
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil || strings.Count(string(out), "cuda:0: the GPU has failed, by another process or in an op up to Add 1×1024: an illegal memory access") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// One that works says nothing.
func TestNoFailure(t *testing.T) {
	d := gpu(t)
	told := make(chan error, 1)
	d.OnFailure(func(err error) { told <- err })
	x := d.Alloc(1, 1024)
	for range 3 {
		d.Zero(x)
		_ = d.wait(func() error { d.look(); return nil })
	}
	if err := d.Sync(); err != nil || len(told) != 0 {
		t.Errorf("%d failures: %v", len(told), err)
	}
}

// A GPU that fails under an op that nobody waits for says so too; Sync and who asks later say what it was. No driver is needed: a
// stream of no context has failed to it.
func TestFailureUnderAnOp(t *testing.T) {
	d := &Device{thread: newThread()}
	defer d.end()
	broken := errors.New("broken")
	d.enqueue(&call{"Add", nil}, func() error { return broken })
	told := make(chan error, 2)
	d.OnFailure(func(err error) { told <- err })
	select {
	case err := <-told:
		if !errors.Is(err, base.ErrFailed) || !errors.Is(err, broken) {
			t.Errorf("it is told of %v", err)
		}
	case <-time.After(tolerable):
		t.Fatal("it is told nothing")
	}
	if err := d.Sync(); !errors.Is(err, base.ErrFailed) || !errors.Is(err, broken) || strings.Count(err.Error(), base.ErrFailed.Error()) != 1 {
		t.Errorf("Sync says %v", err)
	}
}

// Of the driver's failures those of the whole GPU are told from others.
func TestFailuresOfTheGPU(t *testing.T) {
	for code, want := range map[int]bool{2: false, 100: false, 201: false, 700: true, 719: true, 807: true, 808: false, 810: true} {
		if got := errors.Is(fmt.Errorf("Add: %w", driverError(code)), base.ErrFailed); got != want {
			t.Errorf("%v: %v", driverError(code), got)
		}
	}
}
