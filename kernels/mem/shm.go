package mem

import (
	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/schema"
)

// hostMemory is a slab in host memory.
type hostMemory []byte

func createShm(s Spec, g geometry) (made, error) {
	fd, b, err := newMemfd("penstock-"+s.Pool, g.bytes())
	if err != nil {
		return made{}, err
	}
	return made{memory: hostMemory(b), fds: []int{fd}, device: -1}, nil
}

func openShm(_ schema.PoolInfo, g geometry, fds []int) (memory, error) {
	b, err := mapSealed(fds[0], g.bytes())
	if err != nil {
		return nil, err
	}
	return hostMemory(b), nil
}

func (m hostMemory) tensor(from, rows, cols int) kernels.Tensor {
	to := from + 4*rows*cols
	return kernels.Host(rows, cols, float32s(m[from:to:to]))
}

func (m hostMemory) close() error { return unix.Munmap(m) }
