//go:build cuda

package mem

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/kernels/cuda"
	"penstock/schema"
)

func init() { kinds["cudaipc"] = kind{createIPC, openIPC} }

// ipcSlab is a slab in the memory of a GPU. Its generation words stay in host memory, where readers look without a copy.
type ipcSlab struct {
	info schema.PoolInfo
	g    geometry
	srv  *server

	mu   sync.RWMutex
	fd   int
	ctl  control
	data *cuda.Memory // nil once closed
}

func createIPC(spec Spec) (Slab, error) {
	g, err := spec.check()
	if err != nil {
		return nil, err
	}
	s := &ipcSlab{g: g, fd: -1, info: schema.PoolInfo{
		Pool: spec.Pool, Incarnation: spec.Incarnation, Memory: "cudaipc", Device: int32(spec.Device),
		Slots: uint32(g.slots), SlotBytes: uint64(g.slotBytes), Socket: spec.Pool + ".sock",
	}}
	var b []byte
	if s.fd, b, err = newMemfd("penstock-control-"+spec.Pool, controlBytes(g.slots)); err != nil {
		return nil, err
	}
	s.ctl = b
	s.ctl.format(spec.Incarnation, g)
	data, handle, err := cuda.NewMemory(spec.Device, g.bytes())
	if err == nil {
		s.data, s.info.Handle = data, handle
		s.srv, err = serve(spec.RunDir, s.info.Socket, spec.Incarnation, s.fd)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Info implements [Slab].
func (s *ipcSlab) Info() schema.PoolInfo { return s.info }

// Tensor implements [Slab]. Work that uses it must have finished before Close.
func (s *ipcSlab) Tensor(slot uint32, rows, cols int) (kernels.Tensor, error) {
	from, _, err := s.g.span(slot, rows, cols)
	if err != nil {
		return kernels.Tensor{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.data == nil {
		return kernels.Tensor{}, ErrClosed
	}
	return kernels.Tensor{Rows: rows, Cols: cols, Ptr: s.data.Ptr() + uintptr(from)}, nil
}

// SetGeneration implements [Slab]. After Close, and for a slot that is not there, it does nothing.
func (s *ipcSlab) SetGeneration(slot uint32, generation uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.data != nil && slot < s.info.Slots {
		s.ctl.word(slot).Store(generation)
	}
}

// Close implements [Slab].
func (s *ipcSlab) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.srv != nil {
		errs = append(errs, s.srv.close())
	}
	if s.data != nil {
		errs = append(errs, s.data.Close())
	}
	if s.ctl != nil {
		errs = append(errs, unix.Munmap(s.ctl))
		closeAll([]int{s.fd})
	}
	s.srv, s.data, s.ctl = nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close pool %q: %w", s.info.Pool, err)
	}
	return nil
}

// ipcView is a slab in the memory of a GPU as an importer maps it.
type ipcView struct {
	info schema.PoolInfo
	g    geometry

	mu   sync.RWMutex // held for reading while memory is read
	ctl  control
	data *cuda.Memory // nil once closed
}

// openIPC maps the slab on the GPU that it lies on; a device on another GPU copies from there.
func openIPC(ctx context.Context, info schema.PoolInfo, runDir string) (View, error) {
	g, err := newGeometry(uint64(info.Slots), info.SlotBytes)
	if err != nil || uint64(g.slotBytes) != info.SlotBytes || info.Device < 0 || len(info.Handle) != cuda.IPCHandleBytes {
		return nil, fmt.Errorf("%w: %d slots of %d bytes on GPU %d, handle of %d bytes", ErrForged, info.Slots, info.SlotBytes, info.Device, len(info.Handle))
	}
	fds, err := receive(ctx, runDir, info.Socket, info.Incarnation, 1)
	if err != nil {
		return nil, err
	}
	defer closeAll(fds) // the mapping keeps the memory
	v := &ipcView{info: info, g: g}
	b, err := mapSealed(fds[0], controlBytes(g.slots))
	if err != nil {
		return nil, err
	}
	v.ctl = b
	if err = v.ctl.check(info.Incarnation, g); err == nil {
		var data *cuda.Memory
		if data, err = cuda.OpenMemory(int(info.Device), info.Handle); err == nil {
			v.data = data
		}
	}
	if err != nil {
		return nil, errors.Join(err, v.close())
	}
	return v, nil
}

func (v *ipcView) Info() schema.PoolInfo { return v.info }

func (v *ipcView) Generation(slot uint32) (uint64, error) {
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

func (v *ipcView) Read(ref schema.SlotRef, rows, cols int, f func(kernels.Tensor) error) error {
	if err := checkRef(v.info, ref); err != nil {
		return err
	}
	from, _, err := v.g.span(ref.Slot, rows, cols)
	if err != nil {
		return err
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.data == nil {
		return ErrClosed
	}
	return readAt(v.ctl, ref, func() error {
		return f(kernels.Tensor{Rows: rows, Cols: cols, Ptr: v.data.Ptr() + uintptr(from)})
	})
}

// close waits for the reads under way.
func (v *ipcView) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	if v.data != nil {
		errs = append(errs, v.data.Close())
	}
	if v.ctl != nil {
		errs = append(errs, unix.Munmap(v.ctl))
	}
	v.ctl, v.data = nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("unmap pool %q: %w", v.info.Pool, err)
	}
	return nil
}
