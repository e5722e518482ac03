// Package bench measures speed with random weights: what a model of some size costs, without its files.
package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The lognormal distribution of lengths: exp(N(ln median, deviation)), cut to the range.
const (
	median    = 900
	deviation = 0.8
	shortest  = 64
	longest   = 3072
)

// Lengths is a distribution of document lengths.
type Lengths struct {
	name  string
	fixed int // 0 for lognormal
}

// ParseLengths reads fixed:N or lognormal.
func ParseLengths(s string) (Lengths, error) {
	if s == "lognormal" {
		return Lengths{name: s}, nil
	}
	if n, ok := strings.CutPrefix(s, "fixed:"); ok {
		if v, err := strconv.Atoi(n); err == nil && v >= 4 && v <= 1<<20 {
			return Lengths{s, v}, nil
		}
	}
	return Lengths{}, fmt.Errorf("lengths %q: write fixed:N with N from 4 on, or lognormal", s)
}

func (l Lengths) String() string { return l.name }

// Longest bounds the lengths.
func (l Lengths) Longest() int {
	if l.fixed > 0 {
		return l.fixed
	}
	return longest
}

// draw returns the offsets of n documents.
func (l Lengths) draw(r *rand.Rand, n int) []int32 {
	offsets := make([]int32, n+1)
	for i := range n {
		length := l.fixed
		if length == 0 {
			length = int(min(longest, max(shortest, median*math.Exp(deviation*r.NormFloat64()))))
		}
		offsets[i+1] = offsets[i] + int32(length)
	}
	return offsets
}
