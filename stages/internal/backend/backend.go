// Package backend opens the device that a configuration names.
package backend

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"penstock/kernels"
	"penstock/kernels/cpu"
	"penstock/kernels/cuda"
	"penstock/schema"
)

// Open returns the device of a name: cpu, cpu/PATH with a named matrix product, cuda or cuda:K, with bfloat16 for its half type
// unless /float32 follows, null, whose ops do nothing, or sleep/FILE, which takes the times of a scenario. One that was asked
// for and is not there is an error: nothing falls back silently, and of several GPUs none is chosen.
func Open(name string) (kernels.Device, error) { return open(name, 0) }

// OpenThreads is Open with at most so many threads, for devices that share a machine.
func OpenThreads(name string, threads int) (kernels.Device, error) { return open(name, threads) }

// Probe tries to open the device of a name, leaves nothing of it behind, and returns what it is.
func Probe(name string) (string, error) {
	if ordinal, ok := GPU(name); ok {
		what, err := probeGPU(ordinal)
		if err != nil {
			return "", fmt.Errorf("device %q: %w", name, err)
		}
		return what, nil
	}
	d, err := Open(name)
	if err != nil {
		return "", err
	}
	return d.Name(), d.Close()
}

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
	ordinal, half, err := gpu(name)
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	d, err := openGPU(ordinal, half)
	if err != nil {
		return nil, fmt.Errorf("device %q: %w", name, err)
	}
	return d, nil
}

// IsGPU reports whether a name is that of a GPU, or of several.
func IsGPU(name string) bool {
	_, ok := schema.ParseGPUs(name)
	return ok
}

// GPU returns the number of the one GPU that a name is of.
func GPU(name string) (ordinal int, ok bool) {
	ordinal, _, err := gpu(name)
	return ordinal, err == nil
}

// Exact returns the name of the same GPU with float32 for its half type; ok is false for what is not one GPU with bfloat16.
func Exact(name string) (exact string, ok bool) {
	_, half, err := gpu(name)
	return name + "/" + kernels.Float32.String(), err == nil && half == kernels.BFloat16
}

// Decoders returns how many devices of a name are worth opening at once for work that can be split: one a processor core,
// or one on a GPU, where each would hold the weights once more.
func Decoders(name string) int {
	if IsGPU(name) {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// gpu reads the name of one GPU.
func gpu(name string) (ordinal int, half kernels.Type, err error) {
	g, ok := schema.ParseGPUs(name)
	switch {
	case !ok:
		return 0, half, errors.New("want cpu, cpu/PATH, cuda[:K][/float32], null or sleep/FILE")
	case g.N > 1:
		return 0, half, fmt.Errorf("these are %d GPUs, which only a whole run can use: name one, such as %s", g.N, g.Name(0))
	case g.Exact():
		return g.First, kernels.Float32, nil
	}
	return g.First, kernels.BFloat16, nil
}

// Checksum returns the sum over features that devices of a name state in CheckFeatures.
func Checksum(name string) func([]float32) uint64 {
	if kind, _, _ := strings.Cut(name, "/"); kind == "null" || kind == "sleep" {
		return func([]float32) uint64 { return 0 }
	}
	return kernels.CheckSum
}

// Workspace is the memory, in bytes, that a GPU's ops take for a training step beside tensors: see [cuda.Workspace].
func Workspace(half kernels.Type, slots, heads, trained, vocab int) int64 {
	return cuda.Workspace(half, slots, heads, trained, vocab)
}
