//go:build cuda

package backend

import (
	"penstock/kernels"
	"penstock/kernels/cuda"
	"penstock/stages/internal/nvml"
)

func openGPU(ordinal int, half kernels.Type) (kernels.Device, error) {
	d, err := cuda.Open(ordinal, half)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func probeGPU(ordinal int) (string, error) { return cuda.Probe(ordinal) }

// NCCL returns the version of the library by which GPUs add up, or says why it is not there.
func NCCL() (string, error) { return cuda.NCCL() }

// Reaches reports whether a GPU can read another one's memory where it lies.
func Reaches(reader, owner int) (bool, error) { return cuda.Reaches(reader, owner) }

// State reads how busy a GPU is, and how full its memory.
func State(ordinal int) (nvml.State, error) {
	at, err := cuda.BusID(ordinal)
	if err != nil {
		return nvml.State{}, err
	}
	return nvml.Read(at)
}

// Linked reports whether two GPUs reach each other over NVLink.
func Linked(a, b int) (bool, error) {
	ofA, err := cuda.BusID(a)
	if err != nil {
		return false, err
	}
	ofB, err := cuda.BusID(b)
	if err != nil {
		return false, err
	}
	return nvml.Linked(ofA, ofB)
}
