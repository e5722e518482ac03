package worker

import (
	"slices"
	"testing"
	"time"

	"penstock/kernels"
	"penstock/kernels/cpu"
	"penstock/kernels/mem"
	"penstock/schema"
)

// puller is a device to which all memory is one.
type puller struct{ kernels.Device }

func (p puller) Pull(dst, src kernels.Tensor, _ int) { p.Copy(dst, src) }

// TestWhatLiesOnAnotherGPUIsCopied: and lands in the same memory each time, while what lies here is read where it is.
func TestWhatLiesOnAnotherGPUIsCopied(t *testing.T) {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	var pulled uint64
	v := &Views{dev: puller{dev}, open: mem.NewImporter(t.TempDir()), took: func(_ string, bytes uint64, _ time.Duration) { pulled += bytes }}
	v.open.GPU = 1
	slot := kernels.Host(2, 3, []float32{1, 2, 3, 4, 5, 6})
	var landed *float32
	for _, c := range []struct {
		device int32
		x      kernels.Tensor
		copied bool
	}{{1, slot, false}, {-1, slot, false}, {0, slot, true}, {3, slot.RowRange(1, 2), true}} {
		info := schema.PoolInfo{Pool: "target-1", Device: c.device, SlotBytes: 64}
		err := v.here(info, func(x kernels.Tensor) error {
			if err := dev.Sync(); err != nil {
				return err
			}
			if x.Rows != c.x.Rows || x.Cols != c.x.Cols || !slices.Equal(x.F32, c.x.F32) || (&x.F32[0] != &c.x.F32[0]) != c.copied {
				t.Errorf("of GPU %d: %+v", c.device, x)
			}
			if c.copied && landed != nil && landed != &x.F32[0] {
				t.Errorf("of GPU %d: landed elsewhere", c.device)
			}
			if c.copied {
				landed = &x.F32[0]
			}
			return nil
		})(c.x)
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := uint64(slot.Bytes() + slot.Bytes()/2); pulled != want {
		t.Errorf("%d bytes are booked as copied, want %d", pulled, want)
	}
	v.infos = map[string]schema.PoolInfo{"near": {Device: 1}, "far": {Device: 0}, "host": {Device: -1}}
	for pool, want := range map[string]bool{"near": true, "far": false, "host": true, "not seen": true} {
		if got := v.Near(schema.SlotRef{Pool: pool}); got != want {
			t.Errorf("pool %q is near: %v", pool, got)
		}
	}
	v.dev = dev
	if err := v.here(schema.PoolInfo{Device: 0, SlotBytes: 64}, func(kernels.Tensor) error { return nil })(slot); err == nil {
		t.Error("a device that copies from no other read its memory")
	}
}
