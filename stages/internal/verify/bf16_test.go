package verify

import (
	"math"
	"strings"
	"testing"

	"penstock/kernels"
)

// coarse is a device whose matrix products are rounded to bf16.
type coarse struct{ kernels.Device }

func (d coarse) Gemm(c, a, b kernels.Tensor, ta, tb bool, beta float32) {
	d.Device.Gemm(c, a, b, ta, tb, beta)
	for i, v := range c.F32 {
		bits := math.Float32bits(v)
		c.F32[i] = math.Float32frombits((bits + 0x7FFF + bits>>16&1) &^ 0xFFFF)
	}
}

// TestBF16 passes a coarse device at the tolerances of bf16 and refuses it at those of float32.
func TestBF16(t *testing.T) {
	for _, name := range []string{"tiny-go", "tiny-go-trained"} {
		o := Options{TargetDir: demo + "models/tiny-go", GoldenDir: demo + "golden/" + name, BF16: true, Decode: 8}
		if r := verify(t, coarse{fast(t)}, o); !r.OK {
			t.Errorf("%s:\n%s", name, r)
		} else if strings.Contains(r.String(), "after_1_step") {
			t.Errorf("%s: weights were compared", name)
		}
		if o.BF16 = false; verify(t, coarse{fast(t)}, o).OK {
			t.Errorf("%s: a coarse device passes as float32", name)
		}
	}
}
