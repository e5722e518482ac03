package counter

import (
	"math"
	"slices"
	"testing"
)

// TestPhilox checks the known answers of the generator's authors.
func TestPhilox(t *testing.T) {
	for _, c := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{[4]uint32{}, [2]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, [2]uint32{0xffffffff, 0xffffffff}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

// TestStreams pins the first numbers: a change of them changes every run's plan, anchors and initial weights.
func TestStreams(t *testing.T) {
	for _, c := range []struct {
		keys []uint64
		want []uint64
	}{
		{nil, []uint64{0xd364ac11fb73eb5b, 0x7fbf1134b5cadb94, 0x6bbcc6bd22102f57}},
		{[]uint64{Shuffle, 0, 64}, []uint64{0xc2ba49c76dea9d97, 0x774731eb21e69442, 0xda686f247574d6cd}},
	} {
		r := New(1, c.keys...)
		for i, want := range c.want {
			if at := r.At(uint64(i)); at != want {
				t.Errorf("keys %v: At(%d) = %#x, want %#x", c.keys, i, at, want)
			}
			if got := r.Uint64(); got != want {
				t.Errorf("keys %v: number %d is %#x, want %#x", c.keys, i, got, want)
			}
		}
	}
}

// TestNames checks that streams of different names share no number, whichever part of the name differs.
func TestNames(t *testing.T) {
	seen := map[uint64][]uint64{}
	for seed := range uint64(8) {
		for a := range uint64(8) {
			for _, keys := range [][]uint64{{a}, {a, 0}, {0, a, 1}, {a, 1}, {1, a, a}, {^a, a, 2}} {
				name := append([]uint64{seed}, keys...)
				first := New(seed, keys...).Uint64()
				if before, ok := seen[first]; ok && !slices.Equal(before, name) {
					t.Errorf("the streams %v and %v start alike", before, name)
				}
				seen[first] = name
			}
		}
	}
}

func TestDistribution(t *testing.T) {
	const draws = 200_000
	r := New(3, Noise)
	var sum, square, normal, normalSquare float64
	counts := make([]int, 7)
	for range draws {
		f := r.Float64()
		if f < 0 || f >= 1 {
			t.Fatalf("Float64 gives %g", f)
		}
		sum += f
		square += f * f
		n := r.Norm()
		normal += n
		normalSquare += n * n
		counts[r.IntN(7)]++
	}
	near := func(name string, got, want, tolerance float64) {
		if math.Abs(got-want) > tolerance {
			t.Errorf("%s is %g, want %g", name, got, want)
		}
	}
	near("mean", sum/draws, 0.5, 0.003)
	near("mean square", square/draws, 1.0/3, 0.003)
	near("normal mean", normal/draws, 0, 0.01)
	near("normal variance", normalSquare/draws, 1, 0.015)
	for i, n := range counts {
		near("share of "+string(rune('0'+i)), float64(n)/draws, 1.0/7, 0.004)
	}
}

func TestShuffle(t *testing.T) {
	counts := map[[3]int]int{}
	r := New(5, Shuffle)
	const draws = 60_000
	for range draws {
		p := [3]int{0, 1, 2}
		r.Shuffle(3, func(i, j int) { p[i], p[j] = p[j], p[i] })
		counts[p]++
	}
	if len(counts) != 6 {
		t.Errorf("%d orders of 3 things", len(counts))
	}
	for p, n := range counts {
		if math.Abs(float64(n)/draws-1.0/6) > 0.01 {
			t.Errorf("order %v comes %d times of %d", p, n, draws)
		}
	}
}

func BenchmarkUint64(b *testing.B) {
	r := New(1)
	var x uint64
	for b.Loop() {
		x ^= r.Uint64()
	}
	if x == 0 {
		b.Error("improbable")
	}
}
