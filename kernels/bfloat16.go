package kernels

import (
	"encoding/binary"
	"math"
)

// RoundBF16 writes src as bfloat16, little-endian, to dst, which holds two bytes for each: to the nearest, ties to even;
// a NaN stays a NaN.
func RoundBF16(dst []byte, src []float32) {
	for i, v := range src {
		bits := math.Float32bits(v)
		if v != v {
			bits |= 1 << 22 // quiet: rounding could turn a NaN into an infinity
		} else {
			bits += 0x7FFF + bits>>16&1
		}
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(bits>>16))
	}
}

// WidenBF16 reads bfloat16, little-endian, from src: two bytes for each element of dst.
func WidenBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}
