//go:build cuda

package cuda

// #include <cuda.h>
import "C"

import (
	"fmt"

	"gorgonia.org/cu"
)

// BusID returns where a GPU is on the PCI bus, such as 0000:1b:00.0. By that the driver's other libraries know it, whatever
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER make of its number.
func BusID(ordinal int) (string, error) {
	if err := Driver(); err != nil {
		return "", err
	}
	gpu, err := cu.GetDevice(ordinal)
	if err != nil {
		return "", fmt.Errorf("cuda:%d: %w", ordinal, explain(err))
	}
	var id [32]C.char
	if err := check(C.cuDeviceGetPCIBusId(&id[0], C.int(len(id)), C.CUdevice(gpu))); err != nil {
		return "", fmt.Errorf("place of cuda:%d on the bus: %w", ordinal, err)
	}
	return C.GoString(&id[0]), nil
}
