package backend

import (
	"runtime"
	"strings"
	"testing"
)

func TestOpenRefusesUnknownNames(t *testing.T) {
	for _, name := range []string{"", "gpu", "cudax", "cuda:", "cuda:x", "cuda:-1", "cuda:0/fast"} {
		if d, err := Open(name); err == nil || !strings.Contains(err.Error(), "want cpu") {
			t.Errorf("%q: device %v, error %v", name, d, err)
		}
	}
}

func TestGPUOrdinal(t *testing.T) {
	for name, want := range map[string]int{"cuda": 0, "cuda:0": 0, "cuda:12": 12} {
		if n, err := gpuOrdinal(name); err != nil || n != want {
			t.Errorf("%q: GPU %d, error %v, want %d", name, n, err, want)
		}
	}
}

func TestDecodersHoldTheWeightsOnceOnAGPU(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	for name, want := range map[string]int{"cuda": 1, "cuda:3": 1, "cpu": 3, "cpu/go": 3} {
		if n := Decoders(name); n != want {
			t.Errorf("%q: %d, want %d", name, n, want)
		}
	}
}
