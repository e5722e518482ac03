// Package nvml reads how busy a GPU is, how full its memory, and what links it to others.
package nvml

import (
	"fmt"
	"sync"

	"github.com/ebitengine/purego"
)

// The six functions of NVIDIA's management library that a reading needs, loaded at run time: a machine without the
// driver has none of them.
var lib struct {
	once        sync.Once
	err         error
	handle      func(index uint32, device *uintptr) int32
	utilization func(device uintptr, rates *[2]uint32) int32  // percent: kernels, memory
	memory      func(device uintptr, memory *[3]uint64) int32 // bytes: total, free, used
	peers       func(a, b uintptr, by int32, status *int32) int32
}

// State is a GPU at one moment.
type State struct {
	Busy        float64 // share of the last moments in which a kernel ran, of any process
	Used, Total uint64  // bytes of memory
}

func load() {
	so, err := purego.Dlopen("libnvidia-ml.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		lib.err = err
		return
	}
	var start func() int32
	for _, f := range []struct {
		to   any
		name string
	}{
		{&start, "nvmlInit_v2"}, {&lib.handle, "nvmlDeviceGetHandleByIndex_v2"},
		{&lib.utilization, "nvmlDeviceGetUtilizationRates"}, {&lib.memory, "nvmlDeviceGetMemoryInfo"},
		{&lib.peers, "nvmlDeviceGetP2PStatus"},
	} {
		if _, err := purego.Dlsym(so, f.name); err != nil {
			lib.err = err
			return
		}
		purego.RegisterLibFunc(f.to, so, f.name)
	}
	if code := start(); code != 0 {
		lib.err = fmt.Errorf("nvmlInit_v2: code %d", code)
	}
}

// Read reads the GPU with an index, as the driver counts them.
func Read(index int) (State, error) {
	lib.once.Do(load)
	if lib.err != nil {
		return State{}, lib.err
	}
	var device uintptr
	var rates [2]uint32
	var memory [3]uint64
	if code := lib.handle(uint32(index), &device); code != 0 {
		return State{}, fmt.Errorf("GPU %d: code %d", index, code)
	}
	if code := lib.memory(device, &memory); code != 0 {
		return State{}, fmt.Errorf("memory of GPU %d: code %d", index, code)
	}
	if code := lib.utilization(device, &rates); code != 0 {
		rates = [2]uint32{} // a part of a divided GPU does not tell
	}
	return State{Busy: float64(rates[0]) / 100, Used: memory[2], Total: memory[0]}, nil
}

// Linked reports whether two GPUs reach each other over NVLink.
func Linked(a, b int) (bool, error) {
	const byNVLink, works = 2, 0 // NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK
	lib.once.Do(load)
	if lib.err != nil {
		return false, lib.err
	}
	var devices [2]uintptr
	for i, index := range []int{a, b} {
		if code := lib.handle(uint32(index), &devices[i]); code != 0 {
			return false, fmt.Errorf("GPU %d: code %d", index, code)
		}
	}
	var status int32
	if code := lib.peers(devices[0], devices[1], byNVLink, &status); code != 0 {
		return false, fmt.Errorf("link of GPUs %d and %d: code %d", a, b, code)
	}
	return status == works, nil
}
