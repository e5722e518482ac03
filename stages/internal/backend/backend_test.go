package backend

import (
	"runtime"
	"strings"
	"testing"

	"penstock/kernels"
)

func TestOpenRefusesUnknownNames(t *testing.T) {
	for _, name := range []string{"", "gpu", "cudax", "cuda:", "cuda:x", "cuda:-1", "cuda:0/fast", "cuda:0/bfloat16"} {
		if d, err := Open(name); err == nil || !strings.Contains(err.Error(), "want cpu") {
			t.Errorf("%q: device %v, error %v", name, d, err)
		}
	}
}

func TestGPU(t *testing.T) {
	for name, want := range map[string]struct {
		ordinal int
		half    kernels.Type
		exact   string
	}{
		"cuda":            {0, kernels.BFloat16, "cuda/float32"},
		"cuda:0":          {0, kernels.BFloat16, "cuda:0/float32"},
		"cuda:12":         {12, kernels.BFloat16, "cuda:12/float32"},
		"cuda:12/float32": {12, kernels.Float32, ""},
	} {
		if n, half, err := gpu(name); err != nil || n != want.ordinal || half != want.half {
			t.Errorf("%q: GPU %d of %v, error %v, want %+v", name, n, half, err, want)
		}
		if exact, ok := Exact(name); ok != (want.exact != "") || ok && exact != want.exact {
			t.Errorf("%q: exactly %q, %v, want %q", name, exact, ok, want.exact)
		}
	}
	if exact, ok := Exact("cpu"); ok {
		t.Errorf("the exact GPU of cpu is %q", exact)
	}
}

func TestOpenRefusesSeveralGPUs(t *testing.T) {
	for name, want := range map[string]string{"cuda:0-7": "8 GPUs, which only a whole run can use: name one, such as cuda:0", "cuda:2-3/float32": "such as cuda:2/float32"} {
		if d, err := Open(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: device %v, error %v", name, d, err)
		}
		if n, ok := GPU(name); ok || !IsGPU(name) {
			t.Errorf("%q is GPU %d", name, n)
		}
	}
	if exact, ok := Exact("cuda:2-3"); ok {
		t.Errorf("several GPUs are exactly %q", exact)
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
