package safetensors

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// nearest rounds by exact arithmetic: of the two bfloat16 beside f, the nearer, the even one on a tie.
func nearest(f float32) uint16 {
	lo := uint16(math.Float32bits(f) >> 16)
	hi := lo + 1
	if hi&0x7fff == 0x7f80 { // the next step is infinity: it stands where the exponent would go on
		if math.Abs(float64(f)) >= math.Ldexp(2-math.Ldexp(1, -8), 127) {
			return hi
		}
		return lo
	}
	x := new(big.Float).SetFloat64(float64(f))
	a, b := big.NewFloat(float64(BF16ToFloat32(lo))), big.NewFloat(float64(BF16ToFloat32(hi)))
	switch new(big.Float).Abs(a.Sub(a, x)).Cmp(new(big.Float).Abs(b.Sub(b, x))) {
	case -1:
		return lo
	case 1:
		return hi
	}
	return lo + lo&1
}

func TestBF16RoundsToNearestEven(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, f float32) {
		got := BF16FromFloat32(f)
		if f != f {
			if back := BF16ToFloat32(got); back == back {
				t.Fatalf("NaN %#x becomes %g", math.Float32bits(f), back)
			}
			return
		}
		if math.IsInf(float64(f), 0) {
			if BF16ToFloat32(got) != f {
				t.Fatalf("%g becomes %g", f, BF16ToFloat32(got))
			}
			return
		}
		if want := nearest(f); got != want {
			t.Fatalf("%g (%#x) becomes %#x, want %#x", f, math.Float32bits(f), got, want)
		}
	}
	for _, b := range []uint32{0, 1, 0x8000, 0x8001, 0x18000, 0x3f808000, 0x3f818000, 0x3f807fff, 0x7f7f7fff, 0x7f7f8000,
		0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001, 0x7fc00000, 0xffffffff, 0x80000000, 0x80008000} {
		check(t, math.Float32frombits(b))
	}
	rapid.Check(t, func(t *rapid.T) { check(t, math.Float32frombits(rapid.Uint32().Draw(t, "bits"))) })
}

// reference computes ±1.m·2^(e-bias) or ±0.m·2^(1-bias) by the formula.
func reference(bits, eBits, mBits int, ieee bool) float64 {
	sign := 1.0
	if bits>>(eBits+mBits) == 1 {
		sign = -1
	}
	bias := 1<<(eBits-1) - 1
	e, m := bits>>mBits&(1<<eBits-1), float64(bits&(1<<mBits-1))/float64(int(1)<<mBits)
	switch {
	case ieee && e == 1<<eBits-1 && m == 0:
		return math.Inf(int(sign))
	case ieee && e == 1<<eBits-1, !ieee && bits&0x7f == 0x7f:
		return math.NaN()
	case e == 0:
		return sign * m * math.Pow(2, float64(1-bias))
	}
	return sign * (1 + m) * math.Pow(2, float64(e-bias))
}

func TestSmallFloats(t *testing.T) {
	same := func(name string, bits int, got float32, want float64) {
		if float64(got) != want && !(got != got && want != want) || math.Signbit(float64(got)) != math.Signbit(want) && want == want {
			t.Errorf("%s %#x is %g, want %g", name, bits, got, want)
		}
	}
	for b := range 256 {
		same("F8_E4M3", b, F8E4M3ToFloat32(uint8(b)), reference(b, 4, 3, false))
		same("F8_E5M2", b, F8E5M2ToFloat32(uint8(b)), reference(b, 5, 2, true))
	}
	for b := range 1 << 16 {
		same("F16", b, F16ToFloat32(uint16(b)), reference(b, 5, 10, true))
	}
	if F8E4M3ToFloat32(0x7e) != 448 || F8E5M2ToFloat32(0x7b) != 57344 || F16ToFloat32(0x7bff) != 65504 {
		t.Error("the largest finite values are off")
	}
}
