// Package nvml reads how busy a GPU is, how full its memory, and what links it to others.
package nvml

import (
	"fmt"
	"math"
	"sync"

	"github.com/ebitengine/purego"
)

// The functions of NVIDIA's management library that a reading needs, loaded at run time: a machine without the driver has
// none of them.
var lib struct {
	once        sync.Once
	err         error
	handle      func(busID string, device *uintptr) int32
	utilization func(device uintptr, rates *[2]uint32) int32  // percent: kernels, memory
	memory      func(device uintptr, memory *[3]uint64) int32 // bytes: total, free, used
	peers       func(a, b uintptr, by int32, status *int32) int32
}

// State is a GPU at one moment.
type State struct {
	Busy        float64 // share of the last moments in which a kernel ran, of any process; not a number where the driver does not tell
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
		{&start, "nvmlInit_v2"}, {&lib.handle, "nvmlDeviceGetHandleByPciBusId_v2"},
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

// open returns the GPU at a place on the PCI bus.
func open(busID string) (device uintptr, err error) {
	lib.once.Do(load)
	if lib.err != nil {
		return 0, lib.err
	}
	if code := lib.handle(busID, &device); code != 0 {
		return 0, fmt.Errorf("GPU at %s: code %d", busID, code)
	}
	return device, nil
}

// Read reads the GPU at a place on the PCI bus, such as 0000:1b:00.0.
func Read(busID string) (State, error) {
	device, err := open(busID)
	if err != nil {
		return State{}, err
	}
	var memory [3]uint64
	if code := lib.memory(device, &memory); code != 0 {
		return State{}, fmt.Errorf("memory of the GPU at %s: code %d", busID, code)
	}
	s := State{Busy: math.NaN(), Used: memory[2], Total: memory[0]}
	var rates [2]uint32
	if code := lib.utilization(device, &rates); code == 0 { // a GPU that is divided does not tell
		s.Busy = float64(rates[0]) / 100
	}
	return s, nil
}

// Linked reports whether two GPUs, by their places on the PCI bus, reach each other over NVLink.
func Linked(a, b string) (bool, error) {
	const byNVLink, works = 2, 0 // NVML_P2P_CAPS_INDEX_NVLINK, NVML_P2P_STATUS_OK
	var devices [2]uintptr
	for i, busID := range []string{a, b} {
		var err error
		if devices[i], err = open(busID); err != nil {
			return false, err
		}
	}
	var status int32
	if code := lib.peers(devices[0], devices[1], byNVLink, &status); code != 0 {
		return false, fmt.Errorf("link of the GPUs at %s and %s: code %d", a, b, code)
	}
	return status == works, nil
}
