package worker

import (
	"context"
	"errors"
	"strings"
	"testing"

	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/runtime"
)

// watched is a device that fails when the test says so.
type watched struct {
	kernels.Device
	failed func(error)
}

func (d *watched) OnFailure(f func(error)) { d.failed = f }

// A process whose device fails while it waits for work ends with that.
func TestADeviceFailsWhileNothingIsAskedOfIt(t *testing.T) {
	dev := new(watched)
	ctx, fail := context.WithCancelCause(t.Context())
	w := &Worker{fail: fail, Env: &runtime.Env{Open: func(string) (kernels.Device, error) { return dev, nil }}}
	if _, err := w.OpenDevice(); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	dev.failed(broken)
	if err := context.Cause(ctx); err != broken {
		t.Errorf("the process goes on: %v", err)
	}
}

func TestReadable(t *testing.T) {
	for _, c := range []struct {
		memory, element, device string
		half                    kernels.Type
		ok                      bool
	}{
		{"shm", "float32", "cpu", kernels.Float32, true},
		{"shm", "float32", "null", kernels.Float32, true},
		{"cudaipc", "bfloat16", "cuda:1", kernels.BFloat16, true},
		{"cudaipc", "float32", "cuda", kernels.Float32, true},
		{"cudaipc", "float32", "cuda:0", kernels.BFloat16, false},
		{"cudaipc", "bfloat16", "cuda:0", kernels.Float32, false},
		{"shm", "float32", "cuda:0", kernels.Float32, false},
		{"cudaipc", "float32", "cpu", kernels.Float32, false},
	} {
		err := readable(schema.PoolInfo{Pool: "target-1", Memory: c.memory, Element: c.element}, c.device, c.half)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "pool target-1 holds "+c.element+" in "+c.memory) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
