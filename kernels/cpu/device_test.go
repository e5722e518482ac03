package cpu

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

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

func TestNew(t *testing.T) {
	defer goleak.VerifyNone(t)
	d, err := New(Options{Threads: 4})
	if err != nil {
		t.Fatal(err)
	}
	if want := "cpu/" + gemm.Current().Name(); d.Name() != want {
		t.Errorf("the default device is %q, want %q", d.Name(), want)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := New(Options{Gemm: "abacus"}); err == nil || !strings.Contains(err.Error(), "abacus") {
		t.Errorf("an unknown matrix product gives %v", err)
	}
}
