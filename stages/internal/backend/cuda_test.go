//go:build cuda

package backend

import (
	"math"
	"testing"
)

// TestState holds what the driver says of the first GPU against what a device takes on it.
func TestState(t *testing.T) {
	d, err := Open("cuda:0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before, err := State(0)
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 1 << 30
	d.Alloc(1, bytes/4)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	after, err := State(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("before %+v, after %+v", before, after)
	if after.Used < before.Used+bytes || after.Used > after.Total || after.Total != before.Total {
		t.Errorf("with %d bytes more in use a GPU goes from %+v to %+v", bytes, before, after)
	}
	if !math.IsNaN(after.Busy) && (after.Busy < 0 || after.Busy > 1) {
		t.Errorf("a GPU is busy %v", after.Busy)
	}
	if _, err := State(9999); err == nil {
		t.Error("GPU 9999 is there")
	}
}
