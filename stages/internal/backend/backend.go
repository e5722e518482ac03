// Package backend opens the device that a configuration names.
package backend

import (
	"fmt"
	"strings"

	"penstock/kernels"
	"penstock/kernels/cpu"
)

// Open returns the device of a name: cpu, cpu/PATH with a named matrix product, null, whose ops do nothing, or sleep/FILE,
// which takes the times of a scenario. One that was asked for and is not there is an error: nothing falls back silently.
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
	return nil, fmt.Errorf("device %q: this binary was built for cpu only", name)
}

// Checksum returns the sum over features that devices of a name state in CheckFeatures.
func Checksum(name string) func([]float32) uint64 {
	if kind, _, _ := strings.Cut(name, "/"); kind == "null" || kind == "sleep" {
		return func([]float32) uint64 { return 0 }
	}
	return kernels.CheckSum
}
