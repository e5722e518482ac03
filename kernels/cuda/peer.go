//go:build cuda

package cuda

// #include <cuda.h>
import "C"

import (
	"fmt"

	"gorgonia.org/cu"
)

// Reaches reports whether a GPU can read another one's memory where it lies: peer access.
func Reaches(reader, owner int) (bool, error) {
	if err := Driver(); err != nil {
		return false, err
	}
	var gpus [2]cu.Device
	for i, ordinal := range []int{reader, owner} {
		var err error
		if gpus[i], err = cu.GetDevice(ordinal); err != nil {
			return false, fmt.Errorf("cuda:%d: %w", ordinal, explain(err))
		}
	}
	var can C.int
	if err := check(C.cuDeviceCanAccessPeer(&can, C.CUdevice(gpus[0]), C.CUdevice(gpus[1]))); err != nil {
		return false, fmt.Errorf("peer access of cuda:%d to cuda:%d: %w", reader, owner, err)
	}
	return can != 0, nil
}

// mapFor is the GPU in whose context a reader maps another's memory: its own if that reaches it. If not, the owner's, which
// takes a context there; then copies alone may touch it, which the driver leads through host memory.
func mapFor(reader, owner int) (ordinal int, err error) {
	if reader == owner {
		return owner, nil
	}
	ok, err := Reaches(reader, owner)
	if ok {
		return reader, err
	}
	return owner, err
}
