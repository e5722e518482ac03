package mem

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/schema"
)

// shmView is a slab in host memory as an importer maps it.
type shmView struct {
	info schema.PoolInfo
	g    geometry

	mu   sync.RWMutex // held for reading while memory is read
	ctl  control
	data []byte // nil once closed
}

func openShm(ctx context.Context, info schema.PoolInfo, runDir string) (View, error) {
	g, err := newGeometry(uint64(info.Slots), info.SlotBytes)
	if err != nil || uint64(g.slotBytes) != info.SlotBytes {
		return nil, fmt.Errorf("%w: %d slots of %d bytes", ErrForged, info.Slots, info.SlotBytes)
	}
	fds, err := receive(ctx, runDir, info.Socket, info.Incarnation, 2)
	if err != nil {
		return nil, err
	}
	defer closeAll(fds) // the mappings keep the memory
	v := &shmView{info: info, g: g}
	if v.ctl, err = mapSealed(fds[0], controlBytes(g.slots)); err == nil {
		if err = v.ctl.check(info.Incarnation, g); err == nil {
			v.data, err = mapSealed(fds[1], g.bytes())
		}
	}
	if err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

func (v *shmView) Info() schema.PoolInfo { return v.info }

func (v *shmView) Generation(slot uint32) (uint64, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.data == nil {
		return 0, ErrClosed
	}
	if slot >= v.info.Slots {
		return 0, fmt.Errorf("%w: slot %d of %d", ErrForged, slot, v.info.Slots)
	}
	return v.ctl.word(slot).Load(), nil
}

func (v *shmView) Read(ref schema.SlotRef, rows, cols int, f func(kernels.Tensor) error) error {
	if err := checkRef(v.info, ref); err != nil {
		return err
	}
	from, to, err := v.g.span(ref.Slot, rows, cols)
	if err != nil {
		return err
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.data == nil {
		return ErrClosed
	}
	return readAt(v.ctl, ref, func() error { return f(kernels.Host(rows, cols, float32s(v.data[from:to:to]))) })
}

// close waits for the reads under way.
func (v *shmView) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	for _, b := range [][]byte{v.ctl, v.data} {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	v.ctl, v.data = nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("unmap pool %q: %w", v.info.Pool, err)
	}
	return nil
}
