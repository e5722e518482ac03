// Package backend opens the device that a configuration names.
package backend

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"penstock/kernels"
	"penstock/kernels/cpu"
)

// Open returns the device of a name: cpu, cpu/PATH with a named matrix product, cuda or cuda:N, null, whose ops do nothing,
// or sleep/FILE, which takes the times of a scenario. One that was asked for and is not there is an error: nothing falls
// back silently.
func Open(name string) (kernels.Device, error) { return open(name, 0) }

// OpenThreads is Open with at most so many threads, for devices that share a machine.
func OpenThreads(name string, threads int) (kernels.Device, error) { return open(name, threads) }

func open(name string, threads int) (kernels.Device, error) {
	kind, path, _ := strings.Cut(name, "/")
	switch kind {
	case "null":
		return kernels.NewNull(), nil
	case "sleep":
		d, err := newSleeper(path)
		if err != nil {
			return nil, fmt.Errorf("device %q: %w", name, err)
		}
		return d, nil
	case "cpu":
		return cpu.New(cpu.Options{Threads: threads, Gemm: path})
	}
	ordinal, err := gpuOrdinal(name)
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	d, err := openGPU(ordinal)
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	return d, nil
}

// IsGPU reports whether a name is that of a GPU.
func IsGPU(name string) bool {
	_, err := gpuOrdinal(name)
	return err == nil
}

// Decoders returns how many devices of a name are worth opening at once for work that can be split: one a processor core,
// or one on a GPU, where each would hold the weights once more.
func Decoders(name string) int {
	if IsGPU(name) {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// gpuOrdinal reads cuda or cuda:N.
func gpuOrdinal(name string) (int, error) {
	rest, ok := strings.CutPrefix(name, "cuda")
	if ok && rest == "" {
		return 0, nil
	}
	digits, numbered := strings.CutPrefix(rest, ":")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || !numbered || err != nil {
		return 0, errors.New("want cpu, cpu/PATH, cuda[:N], null or sleep/FILE")
	}
	return int(n), nil
}

// Checksum returns the sum over features that devices of a name state in CheckFeatures.
func Checksum(name string) func([]float32) uint64 {
	if kind, _, _ := strings.Cut(name, "/"); kind == "null" || kind == "sleep" {
		return func([]float32) uint64 { return 0 }
	}
	return kernels.CheckSum
}
