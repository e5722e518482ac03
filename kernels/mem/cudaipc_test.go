//go:build cuda

package mem

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"gorgonia.org/cu"

	"penstock/kernels"
	"penstock/kernels/cuda"
	"penstock/kernels/kernelstest"
	"penstock/schema"
)

const gpuOwnerDir = "PENSTOCK_MEM_GPU_OWNER"

func init() { owners[gpuOwnerDir] = ownGPU }

func gpuSpec(dir string) Spec {
	return Spec{Kind: "cudaipc", Pool: "target-0", Incarnation: 77, Slots: 3, SlotBytes: 256 << 20, RunDir: dir}
}

// ownGPU creates a slab on the first GPU, writes slot 1 there and says so, then waits to be killed.
func ownGPU(dir string) int {
	slab, err := Create(gpuSpec(dir))
	var dev *cuda.Device
	if err == nil {
		dev, err = cuda.Open(0, kernels.Float32)
	}
	if err == nil {
		var x kernels.Tensor
		if x, err = slab.Tensor(1, 10, 100); err == nil {
			slab.SetGeneration(1, 9)
			dev.Upload(x, kernelstest.Pattern(1000, 5))
			err = errors.Join(dev.Sync(), json.NewEncoder(os.Stdout).Encode(slab.Info()))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	select {}
}

// device opens the last GPU, which is another than the owner's where there are several.
func device(t *testing.T) (dev *cuda.Device, gpu int) {
	t.Helper()
	n, err := cu.NumDevices()
	if err != nil {
		t.Fatal(err)
	}
	gpu = n - 1
	dev, err = cuda.Open(gpu, kernels.Float32)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev, gpu
}

// TestGPUOwnerIsKilled reads a slab of another process on a GPU, before and while its owner is killed, and sees the memory
// come back though nobody drops the view.
func TestGPUOwnerIsKilled(t *testing.T) {
	dir := t.TempDir()
	dev, gpu := device(t)
	own := dev.Alloc(10, 100)
	info, kill := startAs(t, gpuOwnerDir, dir)
	i := importer(t, dir)
	i.GPU = gpu
	v := open(t, i, info)
	pull := func(x kernels.Tensor) {
		if gpu == int(info.Device) {
			dev.Copy(own, x)
		} else {
			dev.Pull(own, x, int(info.Device))
		}
	}
	read := func() {
		t.Helper()
		dev.Zero(own)
		err := v.Read(ref(info, 1, 9), 10, 100, func(x kernels.Tensor) error {
			pull(x)
			return dev.Sync()
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := kernelstest.Read(dev, own); !slices.Equal(got, kernelstest.Pattern(1000, 5)) {
			t.Errorf("read %v…", got[:8])
		}
	}
	read()
	if err := v.Read(ref(info, 1, 8), 10, 100, func(kernels.Tensor) error { return nil }); !errors.Is(err, ErrStale) {
		t.Errorf("an older generation: %v", err)
	}
	var held int64
	err := v.Read(ref(info, 1, 9), 10, 100, func(x kernels.Tensor) (err error) {
		kill()
		pull(x)
		held, err = cuda.Free(0)
		return errors.Join(err, dev.Sync())
	})
	if got := kernelstest.Read(dev, own); err != nil || !slices.Equal(got, kernelstest.Pattern(1000, 5)) {
		t.Errorf("read while the owner died: %v… %v", got[:8], err)
	}
	if _, err := NewImporter(dir).Open(t.Context(), info); !errors.Is(err, ErrStale) {
		t.Errorf("open a dead owner's slab: %v", err)
	}
	if err := awaitUnmapped(dir, info.Pool); err != nil {
		t.Fatal(err)
	}
	free, err := cuda.Free(0)
	if err != nil {
		t.Fatal(err)
	}
	if back, want := free-held, int64(3*256<<20); back < want {
		t.Errorf("%d bytes came back when the owner had died, the slab has %d", back, want)
	}
}

func TestForgedGPUHandles(t *testing.T) {
	dir := t.TempDir()
	slab, err := Create(gpuSpec(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer slab.Close()
	for name, change := range map[string]func(*schema.PoolInfo){
		"short handle": func(i *schema.PoolInfo) { i.Handle = i.Handle[:10] },
		"no GPU":       func(i *schema.PoolInfo) { i.Device = -1 },
		"slots":        func(i *schema.PoolInfo) { i.Slots++ },
	} {
		info := slab.Info()
		info.Handle = slices.Clone(info.Handle)
		change(&info)
		if _, err := NewImporter(dir).Open(t.Context(), info); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
