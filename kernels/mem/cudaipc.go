//go:build cuda

package mem

import (
	"fmt"

	"penstock/kernels"
	"penstock/kernels/cuda"
	"penstock/schema"
)

func init() { kinds["cudaipc"] = kind{0, createIPC, openIPC} }

// gpuMemory is a slab in the memory of a GPU. Its generation words stay in host memory, where readers look without a copy.
type gpuMemory struct{ *cuda.Memory }

func createIPC(s Spec, g geometry) (made, error) {
	m, handle, err := cuda.NewMemory(s.Device, g.bytes())
	if err != nil {
		return made{}, err
	}
	return made{memory: gpuMemory{m}, device: int32(s.Device), handle: handle}, nil
}

// openIPC maps the slab for the GPU that reads; one that the slab does not lie on copies from there.
func openIPC(info schema.PoolInfo, _ geometry, _ []int, gpu int) (memory, error) {
	if info.Device < 0 || len(info.Handle) != cuda.IPCHandleBytes {
		return nil, fmt.Errorf("%w: memory of GPU %d, handle of %d bytes", ErrForged, info.Device, len(info.Handle))
	}
	m, err := cuda.OpenMemory(gpu, int(info.Device), info.Handle)
	if err != nil {
		return nil, err
	}
	return gpuMemory{m}, nil
}

func (m gpuMemory) at(from int, t kernels.Tensor) kernels.Tensor {
	t.Ptr = m.Ptr() + uintptr(from)
	return t
}

func (m gpuMemory) close() error { return m.Close() }
