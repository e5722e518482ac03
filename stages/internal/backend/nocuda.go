//go:build !cuda

package backend

import (
	"errors"

	"penstock/kernels"
	"penstock/stages/internal/nvml"
)

var errNoCUDA = errors.New("this binary was built for cpu only: build with `./task build:cuda`")

func openGPU(int, kernels.Type) (kernels.Device, error) { return nil, errNoCUDA }

func probeGPU(int) (string, error) { return "", errNoCUDA }

// NCCL returns the version of the library by which GPUs add up, or says why it is not there.
func NCCL() (string, error) { return "", errNoCUDA }

// Reaches reports whether a GPU can read another one's memory where it lies.
func Reaches(_, _ int) (bool, error) { return false, errNoCUDA }

// State reads how busy a GPU is, and how full its memory.
func State(int) (nvml.State, error) { return nvml.State{}, errNoCUDA }

// Linked reports whether two GPUs reach each other over NVLink.
func Linked(_, _ int) (bool, error) { return false, errNoCUDA }
