package kernels_test

import (
	"math"
	"testing"

	"penstock/kernels"
)

func TestBF16(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct{ in, want float32 }{
		{0, 0}, {1, 1}, {-2.5, -2.5}, {1 + 1.0/256, 1}, {1 + 3.0/256, 1 + 4.0/256}, {1 + 1.1/256, 1 + 2.0/256}, {-1 - 1.1/256, -1 - 2.0/256},
		{math.MaxFloat32, inf}, {inf, inf}, {-inf, -inf},
	} {
		var b [2]byte
		var got [1]float32
		kernels.RoundBF16(b[:], []float32{c.in})
		kernels.WidenBF16(got[:], b[:])
		if got[0] != c.want {
			t.Errorf("%v becomes %v, want %v", c.in, got[0], c.want)
		}
	}
	nan := math.Float32frombits(0x7F800001)
	var b [2]byte
	var got [1]float32
	kernels.RoundBF16(b[:], []float32{nan})
	kernels.WidenBF16(got[:], b[:])
	if got[0] == got[0] {
		t.Errorf("a NaN becomes %v", got[0])
	}
}

func TestTensorOfBF16(t *testing.T) {
	x := kernels.Tensor{Rows: 5, Cols: 3, Type: kernels.BFloat16, Ptr: 1000}
	if x.Bytes() != 30 {
		t.Errorf("%d bytes, want 30", x.Bytes())
	}
	if v := x.RowRange(2, 4); v.Ptr != 1012 || v.Type != kernels.BFloat16 || v.Bytes() != 12 {
		t.Errorf("rows 2 and 3 are %+v", v)
	}
}

func TestUploadBytes(t *testing.T) {
	x := ref.Alloc(1, 2)
	ref.UploadBytes(x, []byte{0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0})
	if x.F32[0] != 1 || x.F32[1] != -2 {
		t.Errorf("got %v", x.F32)
	}
}
