package cpu

import (
	"testing"

	"penstock/kernels/gemm"
	"penstock/kernels/kernelstest"
)

func TestConformance(t *testing.T) {
	for _, name := range gemm.Paths() {
		for _, threads := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				d, err := New(Options{Threads: threads, Gemm: name})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				kernelstest.Conformance(t, d)
			})
		}
	}
	t.Logf("matrix products tested: %v", gemm.Paths())
}
