//go:build !cuda

package backend

import (
	"errors"

	"penstock/kernels"
)

func openGPU(int, kernels.Type) (kernels.Device, error) {
	return nil, errors.New("this binary was built for cpu only: build with `./task build:cuda`")
}
