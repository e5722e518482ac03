// Package counter draws random numbers that depend on their key and their position alone, on every machine and in every
// order: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011).
//
// A stream is named by a seed and keys, of which the first says what the numbers are for, so that no two uses share one.
package counter

import (
	"math"
	"math/bits"
)

// What a stream's numbers are for: the first of its keys.
const (
	Shuffle uint64 = 1 + iota // order of documents: epoch, bucket edge
	Anchors                   // anchors of a document: epoch, document key
	Noise                     // noise on captures: epoch, document key
	Init                      // initial weights: a tensor's hash
)

// Rand is one stream. It is not for use by several goroutines at once; make another of the same name instead.
type Rand struct {
	key    [2]uint32
	stream [2]uint32 // upper half of the counter
	next   uint64    // position of the next number
	pair   [2]uint64 // numbers at next&^1 and the one after, where next is odd
}

// New starts the stream named by seed and keys.
func New(seed uint64, keys ...uint64) *Rand {
	a, b := mix(seed), mix(^seed)
	for _, k := range keys {
		a, b = mix(a+k), mix(b^k)
	}
	return &Rand{key: [2]uint32{uint32(a), uint32(a >> 32)}, stream: [2]uint32{uint32(b), uint32(b >> 32)}}
}

// mix is the finalizer of SplitMix64 behind its increment (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014): a bijection without visible structure.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Uint64 returns the next 64 bits of the stream.
func (r *Rand) Uint64() uint64 {
	if r.next%2 == 0 {
		r.pair = r.block(r.next / 2)
	}
	u := r.pair[r.next%2]
	r.next++
	return u
}

// At returns the number at position i, counted from 0, without moving the stream.
func (r *Rand) At(i uint64) uint64 { return r.block(i / 2)[i%2] }

// Float64 returns the next number as one in [0, 1), a multiple of 2^-53.
func (r *Rand) Float64() float64 { return float64(r.Uint64()>>11) * 0x1p-53 }

// Norm returns a normally distributed number of mean 0 and variance 1, from the next two numbers (Box and Muller).
func (r *Rand) Norm() float64 {
	u, v := 1-r.Float64(), r.Float64() // u is not 0
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v)
}

// IntN returns a number in [0, n), each equally likely (Lemire: Fast Random Integer Generation in an Interval, 2019).
// It panics if n is not positive.
func (r *Rand) IntN(n int) int {
	if n <= 0 {
		panic("counter: IntN of a number that is not positive")
	}
	hi, lo := bits.Mul64(r.Uint64(), uint64(n))
	if lo < uint64(n) {
		for limit := -uint64(n) % uint64(n); lo < limit; {
			hi, lo = bits.Mul64(r.Uint64(), uint64(n))
		}
	}
	return int(hi)
}

// Shuffle puts n things in random order through swap (Fisher and Yates, from the end).
func (r *Rand) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.IntN(i+1))
	}
}

// block is the pair of numbers at counter i.
func (r *Rand) block(i uint64) [2]uint64 {
	x := philox([4]uint32{uint32(i), uint32(i >> 32), r.stream[0], r.stream[1]}, r.key)
	return [2]uint64{uint64(x[1])<<32 | uint64(x[0]), uint64(x[3])<<32 | uint64(x[2])}
}

// philox is Philox4x32 with ten rounds.
func philox(c [4]uint32, key [2]uint32) [4]uint32 {
	c0, c1, c2, c3, k0, k1 := c[0], c[1], c[2], c[3], key[0], key[1]
	for range 10 {
		a, b := uint64(c0)*0xD2511F53, uint64(c2)*0xCD9E8D57
		c0, c1, c2, c3 = uint32(b>>32)^c1^k0, uint32(b), uint32(a>>32)^c3^k1, uint32(a)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
}
