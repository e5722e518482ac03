package model

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestLossWeights holds the factors to their definitions, written out slot by slot.
func TestLossWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, blocks := rapid.IntRange(2, 9).Draw(t, "size"), rapid.IntRange(1, 4).Draw(t, "blocks")
		n := size * blocks
		m := rapid.SliceOfN(rapid.Uint8Range(0, 1), n, n).Draw(t, "m")
		ce := rapid.SliceOfN(rapid.Float32Range(0, 12), n, n).Draw(t, "ce")
		gamma, alpha := rapid.Float64Range(0.5, 9).Draw(t, "gamma"), rapid.Float64Range(0, 1).Draw(t, "alpha")
		for b := range blocks {
			m[b*size] = 0 // slot 0 is never trained on
		}
		decayed, den := Loss{Kind: DFlash, Gamma: gamma}.weights(m, nil, size)
		plain, count := Loss{Kind: DFlash}.weights(m, nil, size)
		pace, one := Loss{Kind: DPace, Alpha: alpha}.weights(m, ce, size)
		var sum, slots float64
		for i, on := range m {
			k, first := i%size, i/size*size
			want, wantPace := 0.0, 0.0
			if on == 1 {
				want = math.Exp(-float64(k-1) / gamma)
				for j := k; j < size; j++ {
					p := 1.0
					for i := 0; i <= j; i++ {
						if m[first+i] == 1 {
							p *= (1-alpha)*math.Exp(-float64(ce[first+i])) + alpha
						}
					}
					wantPace += p * float64(m[first+j])
				}
			}
			sum, slots = sum+want, slots+float64(on)
			if !approx(decayed[i], want) || !approx(plain[i], float64(on)) || !approx(pace[i], wantPace) {
				t.Fatalf("slot %d: %v, %v, %v, want %v, %v, %v", i, decayed[i], plain[i], pace[i], want, on, wantPace)
			}
		}
		if !approx(float32(den), sum) || count != slots || one != 1 {
			t.Fatalf("denominators %v, %v, %v, want %v, %v, 1", den, count, one, sum, slots)
		}
	})
}

func approx(a float32, b float64) bool { return math.Abs(float64(a)-b) <= 1e-5*(1+math.Abs(b)) }

// TestCount holds hits and accepted slots to their definitions: cumulative products over the block.
func TestCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, blocks := rapid.IntRange(1, 7).Draw(t, "size"), rapid.IntRange(0, 4).Draw(t, "blocks")
		n := size * blocks
		r := Result{Weight: rapid.SliceOfN(rapid.Uint8Range(0, 1), n, n).Draw(t, "m"), Hit: rapid.SliceOfN(rapid.Uint8Range(0, 1), n, n).Draw(t, "hit")}
		for i := range r.Hit {
			if i%size == 0 {
				r.Weight[i] = 0
			}
			r.Hit[i] *= r.Weight[i]
		}
		r.count(size)
		hits, slots, accepted, at := 0, 0, 0, make([]int, size)
		for b := range blocks {
			run, in := 1, 0
			for k := range size {
				w, h := int(r.Weight[b*size+k]), int(r.Hit[b*size+k])
				run *= max(h, 1-w)
				in += run * w
				at[k] += run * w
				hits, slots = hits+h, slots+w
			}
			if r.Accept[b] != in {
				t.Fatalf("block %d accepts %d, want %d", b, r.Accept[b], in)
			}
			accepted += in
		}
		total := Result{}
		total.Add(r)
		total.Add(r)
		if r.Hits != hits || r.Slots != slots || r.Accepted != accepted || r.Blocks != blocks || total.Hits != 2*hits || total.Blocks != 2*blocks {
			t.Fatalf("%+v, want %d hits, %d slots, %d accepted", r, hits, slots, accepted)
		}
		for k := range size {
			if total.At[k].Slots != 2*r.At[k].Slots || total.At[k].Hits != 2*r.At[k].Hits || total.At[k].Accepted != 2*at[k] {
				t.Fatalf("place %d: %+v after two of %+v, want %d accepted", k, total.At[k], r.At[k], 2*at[k])
			}
		}
	})
}
