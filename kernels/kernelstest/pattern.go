// Package kernelstest tests devices: deterministic inputs, poisoned and guarded outputs, and Conformance, which
// compares every op of a device with kernels.Ref.
package kernelstest

import (
	"math"

	"penstock/kernels"
)

// Pattern returns n values on the lattice of multiples of 1/128 in [-1, 1], fixed by seed. They are exact in bf16, and
// sums of up to 1,024 products of two of them are exact in float32, so that ties are ties on every device.
func Pattern(n int, seed uint64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(int(mix(seed<<32+uint64(i))%257)-128) / 128
	}
	return v
}

// Rows returns n numbers below limit, fixed by seed.
func Rows(n, limit int, seed uint64) []int32 {
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(mix(seed<<32+uint64(i)) % uint64(limit))
	}
	return v
}

// Distinct returns n different numbers below limit in a mixed order.
func Distinct(n, limit int) []int32 {
	step := 1
	for s := limit/2 + 1; s < limit; s++ {
		if gcd(s, limit) == 1 {
			step = s
			break
		}
	}
	v := make([]int32, n)
	for i := range v {
		v[i] = int32(i * step % limit)
	}
	return v
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// mix is the SplitMix64 output function.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// New uploads a rows×cols tensor of v to dev.
func New(dev kernels.Device, rows, cols int, v []float32) kernels.Tensor {
	t := dev.Alloc(rows, cols)
	dev.Upload(t, v)
	return t
}

// NewHalf is New for a tensor of the half type.
func NewHalf(dev kernels.Device, rows, cols int, v []float32) kernels.Tensor {
	t := dev.AllocHalf(rows, cols)
	dev.Upload(t, v)
	return t
}

// Read downloads t.
func Read(dev kernels.Device, t kernels.Tensor) []float32 {
	v := make([]float32, t.Len())
	dev.Download(v, t)
	return v
}

// MaxRel returns max|got-want| / max|want|; 0 if got equals want bit by bit, +Inf where a NaN stands on one side only
// or the lengths differ.
func MaxRel(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	var diff, top float64
	for i, w := range want {
		g, w := float64(got[i]), float64(w)
		if math.IsNaN(g) != math.IsNaN(w) {
			return math.Inf(1)
		}
		if g == w || math.IsNaN(g) {
			top = max(top, math.Abs(w))
			continue
		}
		diff, top = max(diff, math.Abs(g-w)), max(top, math.Abs(w))
	}
	if diff == 0 {
		return 0
	}
	return diff / top
}
