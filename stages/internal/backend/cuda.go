//go:build cuda

package backend

import (
	"penstock/kernels"
	"penstock/kernels/cuda"
)

func openGPU(ordinal int) (kernels.Device, error) {
	d, err := cuda.Open(ordinal, kernels.Float32)
	if err != nil {
		return nil, err
	}
	return d, nil
}
