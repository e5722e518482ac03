package kernels

import (
	"encoding/binary"
	"math"
)

const (
	sumKey   = 0x9E3779B97F4A7C15 // 2⁶⁴/φ: spreads the element's number
	sumPrime = 0x100000001B3      // the 64-bit FNV prime
)

// CheckSum is the checksum of a run of features: over elements i with bits b_i,
// Σ h(i) mod 2⁶⁴, h(i) = t xor (t >> 32), t = (b_i xor (i+1)·sumKey)·sumPrime.
// As FNV-1a it multiplies after the exclusive or; unlike it, elements are independent, so any order gives the same sum.
func CheckSum(x []float32) uint64 { return CheckSumFrom(x, 0) }

// CheckSumFrom is the part of CheckSum that elements first, first+1, … of a tensor contribute; parts add up.
func CheckSumFrom(x []float32, first int) uint64 {
	var sum uint64
	key := uint64(first) * sumKey
	for _, v := range x {
		key += sumKey
		t := (uint64(math.Float32bits(v)) ^ key) * sumPrime
		sum += t ^ t>>32
	}
	return sum
}

// CheckSumBF16 is CheckSum over elements of bfloat16, which stand in raw as two bytes each, little-endian; b_i has 16 bits.
func CheckSumBF16(raw []byte) uint64 {
	var sum, key uint64
	for i := 0; i < len(raw); i += 2 {
		key += sumKey
		t := (uint64(binary.LittleEndian.Uint16(raw[i:])) ^ key) * sumPrime
		sum += t ^ t>>32
	}
	return sum
}

// CheckFeatures tests and sums x. An empty tensor is finite, zero, and not constant.
func (*Ref) CheckFeatures(x Tensor) FeatureCheck {
	c := FeatureCheck{Finite: true, Zero: true, Constant: x.Rows > 1, Checksum: CheckSum(x.F32)}
	for i, v := range x.F32 {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			c.Finite = false
		}
		if v != 0 {
			c.Zero = false
		}
		if v != x.F32[i%x.Cols] {
			c.Constant = false
		}
	}
	return c
}
