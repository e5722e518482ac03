package model

import "hash/fnv"

// Random is a counter-based generator: every number is a function of (seed, stream, counter) in integer arithmetic, so
// that it is the same on every machine and in any order.
type Random struct{ key uint64 }

// NewRandom returns the generator of a named stream.
func NewRandom(seed uint64, stream string) Random {
	h := fnv.New64a()
	h.Write([]byte(stream))
	return Random{splitMix(seed) ^ h.Sum64()}
}

// Uint64 returns number n of the stream.
func (r Random) Uint64(n uint64) uint64 { return splitMix(r.key + n*0x9E3779B97F4A7C15) }

// Normal returns number n of the stream's normal numbers: the sum of twelve 16-bit numbers, centred, over 2¹⁶
// (Irwin and Hall). Its variance is 1 to nine digits and no value lies beyond ±6.
func (r Random) Normal(n uint64) float32 {
	sum := 0
	for i := range uint64(3) {
		for x := r.Uint64(3*n + i); x != 0; x >>= 16 {
			sum += int(x & 0xFFFF)
		}
	}
	return float32(sum-6*0xFFFF) / (1 << 16)
}

// splitMix is the SplitMix64 output function (Steele, Lea and Flood, 2014).
func splitMix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
