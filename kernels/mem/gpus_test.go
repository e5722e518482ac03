//go:build cuda && gpus

package mem

import (
	"errors"
	"slices"
	"testing"
	"time"

	"penstock/kernels"
	"penstock/kernels/cuda"
	"penstock/kernels/kernelstest"
)

// A slab of another process on the first GPU arrives whole on the last one: as peer access has it, and through host memory.
// Its rate is logged.
func TestPullFromAnotherGPU(t *testing.T) {
	for _, access := range []string{"", "off"} {
		t.Run("peer access "+access, func(t *testing.T) {
			t.Setenv(cuda.PeerAccess, access)
			dir := t.TempDir()
			dev, gpu := device(t)
			if gpu == 0 {
				t.Fatal("there is one GPU")
			}
			reaches, err := cuda.Reaches(gpu, 0)
			if err != nil || access == "off" && reaches {
				t.Fatal(reaches, err)
			}
			info, kill := startAs(t, gpuOwnerDir, dir)
			defer kill()
			i := importer(t, dir)
			i.GPU = gpu
			v := open(t, i, info)
			own := dev.Alloc(10, 100)
			err = v.Read(ref(info, 1, 9), 10, 100, func(x kernels.Tensor) error {
				dev.Pull(own, x, 0)
				return dev.Sync()
			})
			if got := kernelstest.Read(dev, own); err != nil || !slices.Equal(got, kernelstest.Pattern(1000, 5)) {
				t.Fatalf("read %v… %v", got[:8], err)
			}
			all := dev.Alloc(1, int(info.SlotBytes)/4)
			var took time.Duration
			for range 2 { // the first copy opens the way
				err = v.Read(ref(info, 1, 9), 1, all.Len(), func(x kernels.Tensor) error {
					began := time.Now()
					dev.Pull(all, x, 0)
					err := dev.Sync()
					took = time.Since(began)
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("cuda:0 to cuda:%d, peer access %v: %.1f GB/s", gpu, reaches, float64(info.SlotBytes)/took.Seconds()/1e9)
			if err := v.Read(ref(info, 1, 8), 1, 1, func(kernels.Tensor) error { return nil }); !errors.Is(err, ErrStale) {
				t.Errorf("an older generation: %v", err)
			}
		})
	}
}
