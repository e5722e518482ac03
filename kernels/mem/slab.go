package mem

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/schema"
)

// Slab is the owner's side. It is safe for concurrent use.
type Slab struct {
	info   schema.PoolInfo
	g      geometry
	runDir string
	srv    *server
	fds    []int // control, and what the kind passes

	mu   sync.RWMutex
	ctl  control
	data memory // nil once closed
}

// Create allocates a slab, all of it at once, and serves it to importers until Close. What importers still map of an owner
// before it is waited for.
func Create(s Spec) (*Slab, error) {
	k, ok := kinds[s.Kind]
	if !ok {
		return nil, fmt.Errorf("pool %q: memory of kind %q is not part of this build", s.Pool, s.Kind)
	}
	slab, err := newSlab(k, s)
	if err != nil {
		return nil, fmt.Errorf("pool %q: %w", s.Pool, err)
	}
	return slab, nil
}

func newSlab(k kind, spec Spec) (_ *Slab, err error) {
	g, err := spec.check()
	if err != nil {
		return nil, err
	}
	s := &Slab{g: g, runDir: spec.RunDir, info: schema.PoolInfo{
		Pool: spec.Pool, Incarnation: spec.Incarnation, Memory: spec.Kind, Element: spec.Element.String(),
		Slots: uint32(g.slots), SlotBytes: uint64(g.slotBytes), Socket: spec.Pool + ".sock",
	}}
	if err := unserved(spec.RunDir, s.info.Socket); err != nil {
		return nil, err
	}
	if err := awaitUnmapped(spec.RunDir, spec.Pool); err != nil && !errors.Is(err, errMapped) {
		return nil, err
	} // what a process maps that does not move costs room; if there is too little, allocating says so
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	fd, b, err := newMemfd("penstock-control-"+spec.Pool, controlBytes(g.slots))
	if err != nil {
		return nil, err
	}
	s.fds, s.ctl = append(s.fds, fd), b
	s.ctl.format(spec.Incarnation, g)
	m, err := k.create(spec, g)
	if err != nil {
		return nil, err
	}
	s.data, s.fds = m.memory, append(s.fds, m.fds...)
	s.info.Device, s.info.Handle = m.device, m.handle
	s.srv, err = serve(spec.RunDir, s.info.Socket, spec.Incarnation, s.fds...)
	return s, err
}

// Info is what importers need, to be announced.
func (s *Slab) Info() schema.PoolInfo { return s.info }

// Tensor is the first rows·cols elements of a slot. The owner writes it; work that uses it must be done before Close.
func (s *Slab) Tensor(slot uint32, rows, cols int) (kernels.Tensor, error) {
	from, t, err := s.g.tensor(slot, rows, cols)
	if err != nil {
		return kernels.Tensor{}, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.data == nil {
		return kernels.Tensor{}, ErrClosed
	}
	return s.data.at(from, t), nil
}

// SetGeneration stores the slot's generation word. It happens before every write that follows it. After Close, and for a
// slot that is not there, it does nothing.
func (s *Slab) SetGeneration(slot uint32, generation uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.data != nil && slot < s.info.Slots {
		s.ctl.word(slot).Store(generation)
	}
}

// Close has importers let go and takes the memory away from this process. Memory that one of them does not let go of in
// time is left to the end of the process: a GPU's must not be freed while it is mapped.
func (s *Slab) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	if s.srv != nil {
		errs = append(errs, s.srv.close())
	}
	if s.data != nil {
		err := awaitUnmapped(s.runDir, s.info.Pool)
		if err == nil {
			err = s.data.close()
		}
		errs = append(errs, err)
	}
	if s.ctl != nil {
		errs = append(errs, unix.Munmap(s.ctl))
	}
	closeAll(s.fds)
	s.srv, s.ctl, s.data, s.fds = nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close pool %q: %w", s.info.Pool, err)
	}
	return nil
}
