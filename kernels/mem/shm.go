package mem

import (
	"fmt"

	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/schema"
)

// hostMemory is a slab in host memory.
type hostMemory []byte

func createShm(s Spec, g geometry) (made, error) {
	if g.element != kernels.Float32 {
		return made{}, fmt.Errorf("%v in host memory", g.element)
	}
	fd, b, err := newMemfd("penstock-"+s.Pool, g.bytes())
	if err != nil {
		return made{}, err
	}
	return made{memory: hostMemory(b), fds: []int{fd}, device: -1}, nil
}

func openShm(_ schema.PoolInfo, g geometry, fds []int, _ int) (memory, error) {
	if g.element != kernels.Float32 {
		return nil, fmt.Errorf("%w: %v in host memory", ErrForged, g.element)
	}
	b, err := mapSealed(fds[0], g.bytes())
	if err != nil {
		return nil, err
	}
	return hostMemory(b), nil
}

func (m hostMemory) at(from int, t kernels.Tensor) kernels.Tensor {
	to := from + t.Bytes()
	t.F32 = float32s(m[from:to:to])
	return t
}

func (m hostMemory) close() error { return unix.Munmap(m) }
