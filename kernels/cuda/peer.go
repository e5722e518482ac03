//go:build cuda

package cuda

// #include <cuda.h>
import "C"

import (
	"fmt"
	"os"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

// PeerAccess names the environment variable that, set to off, has GPUs treated as if none reached another's memory.
const PeerAccess = "PENSTOCK_PEER_ACCESS"

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
	if os.Getenv(PeerAccess) == "off" {
		return false, nil
	}
	var can C.int
	if err := check(C.cuDeviceCanAccessPeer(&can, C.CUdevice(gpus[0]), C.CUdevice(gpus[1]))); err != nil {
		return false, fmt.Errorf("peer access of cuda:%d to cuda:%d: %w", reader, owner, err)
	}
	return can != 0, nil
}

// mapFor is the GPU in whose context a reader maps another's memory: its own if that reaches it. If not, the owner's, which
// takes a context there; then Pull alone may touch it.
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

var _ base.Puller = (*Device)(nil)

// Pull implements [base.Puller]: by the copy engines from GPU to GPU where this one reaches the other's memory, else through
// page-locked host memory.
func (d *Device) Pull(dst, src base.Tensor, owner int) {
	base.Want("Pull", "src", src, dst.Rows, dst.Cols)
	if same("Pull", dst, src); dst.Len() == 0 {
		return
	}
	to, from, bytes := at("Pull", dst), at("Pull", src), int64(dst.Bytes())
	d.enqueue(&call{"Pull", []any{shape(dst), owner}}, func() error {
		where, err := mapFor(d.ordinal, owner)
		if err != nil {
			return err
		}
		if where == d.ordinal {
			return cu.MemcpyDtoDAsync(cu.DevicePtr(to), cu.DevicePtr(from), bytes, d.stream)
		}
		return d.relay(owner, to, from, bytes)
	})
}
