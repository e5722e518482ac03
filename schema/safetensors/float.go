package safetensors

import "math"

// BF16FromFloat32 rounds to the nearest bfloat16, ties to even. NaN stays NaN.
func BF16FromFloat32(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// BF16ToFloat32 is exact.
func BF16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// F16ToFloat32 is exact.
func F16ToFloat32(h uint16) float32 {
	return small(uint32(h>>15), uint32(h>>10&0x1f), uint32(h&0x3ff), 5, 10, true)
}

// F8E5M2ToFloat32 is exact.
func F8E5M2ToFloat32(b uint8) float32 { return F16ToFloat32(uint16(b) << 8) }

// F8E4M3ToFloat32 is exact. The format has no infinity; 0x7f and 0xff are NaN.
func F8E4M3ToFloat32(b uint8) float32 {
	if b&0x7f == 0x7f {
		return float32(math.NaN())
	}
	return small(uint32(b>>7), uint32(b>>3&0xf), uint32(b&7), 4, 3, false)
}

// small widens a float with e exponent and m mantissa bits; ieee says that the top exponent is infinity or NaN.
func small(sign, exp, man uint32, e, m int, ieee bool) float32 {
	bias := 1<<(e-1) - 1
	switch {
	case exp == 0:
		v := math.Ldexp(float64(man), 1-bias-m)
		if sign == 1 {
			v = -v
			if man == 0 {
				v = math.Copysign(0, -1)
			}
		}
		return float32(v)
	case ieee && exp == 1<<e-1:
		return math.Float32frombits(sign<<31 | 0x7f800000 | man<<(23-m))
	}
	return math.Float32frombits(sign<<31 | (exp+uint32(127-bias))<<23 | man<<(23-m))
}

var (
	f8e4m3 = table(F8E4M3ToFloat32)
	f8e5m2 = table(F8E5M2ToFloat32)
)

func table(f func(uint8) float32) (t [256]float32) {
	for i := range t {
		t[i] = f(uint8(i))
	}
	return t
}
