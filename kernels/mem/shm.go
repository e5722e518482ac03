package mem

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/schema"
)

// Shm is a slab in host memory.
type Shm struct {
	info schema.PoolInfo
	g    geometry
	fds  []int // control, slots
	srv  *server

	mu   sync.RWMutex
	ctl  control
	data []byte // nil once closed
}

func createShm(spec Spec) (Slab, error) {
	g, err := spec.check()
	if err != nil {
		return nil, err
	}
	s := &Shm{g: g, info: schema.PoolInfo{
		Pool: spec.Pool, Incarnation: spec.Incarnation, Memory: "shm", Device: -1,
		Slots: uint32(g.slots), SlotBytes: uint64(g.slotBytes), Socket: spec.Pool + ".sock",
	}}
	if err := s.allocate(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if s.srv, err = serve(spec.RunDir, s.info.Socket, spec.Incarnation, s.fds...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Shm) allocate() error {
	fd, b, err := newMemfd("penstock-control-"+s.info.Pool, controlBytes(s.g.slots))
	if err != nil {
		return err
	}
	s.fds, s.ctl = append(s.fds, fd), b
	s.ctl.format(s.info.Incarnation, s.g)
	if fd, b, err = newMemfd("penstock-"+s.info.Pool, s.g.bytes()); err != nil {
		return err
	}
	s.fds, s.data = append(s.fds, fd), b
	return nil
}

// Info implements [Slab].
func (s *Shm) Info() schema.PoolInfo { return s.info }

// Bytes is a whole slot. It must not be used after Close.
func (s *Shm) Bytes(slot uint32) ([]byte, error) {
	from, _, err := s.g.span(slot, 0, 0)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.data == nil {
		return nil, ErrClosed
	}
	return s.data[from : from+s.g.slotBytes : from+s.g.slotBytes], nil
}

// Float32 is the first n float32 of a slot. It must not be used after Close.
func (s *Shm) Float32(slot uint32, n int) ([]float32, error) {
	t, err := s.Tensor(slot, 1, n)
	return t.F32, err
}

// Tensor implements [Slab]. It must not be used after Close.
func (s *Shm) Tensor(slot uint32, rows, cols int) (kernels.Tensor, error) {
	from, to, err := s.g.span(slot, rows, cols)
	if err != nil {
		return kernels.Tensor{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.data == nil {
		return kernels.Tensor{}, ErrClosed
	}
	return kernels.Host(rows, cols, float32s(s.data[from:to:to])), nil
}

// SetGeneration implements [Slab]. After Close, and for a slot that is not there, it does nothing.
func (s *Shm) SetGeneration(slot uint32, generation uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.data != nil && slot < s.info.Slots {
		s.ctl.word(slot).Store(generation)
	}
}

// Close implements [Slab].
func (s *Shm) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.srv != nil {
		errs = append(errs, s.srv.close())
	}
	for _, b := range [][]byte{s.ctl, s.data} {
		if b != nil {
			errs = append(errs, unix.Munmap(b))
		}
	}
	closeAll(s.fds)
	s.srv, s.ctl, s.data, s.fds = nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close pool %q: %w", s.info.Pool, err)
	}
	return nil
}
