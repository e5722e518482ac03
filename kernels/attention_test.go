package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"penstock/kernels"
)

// attend64 is softmax(scale·q·kᵀ)·v of one query row and head over the rows that see admits, and its log Σ exp.
func attend64(q, k, v []float64, row, head int, h kernels.Heads, see func(key int) bool) (o []float64, lse float64) {
	o = make([]float64, h.Dim)
	qo, g := (row*h.Q+head)*h.Dim, head*h.KV/h.Q
	var sum float64
	for j := range len(k) / (h.KV * h.Dim) {
		if !see(j) {
			continue
		}
		ko := (j*h.KV + g) * h.Dim
		var s float64
		for d := range h.Dim {
			s += q[qo+d] * k[ko+d]
		}
		p := math.Exp(s * float64(h.Scale))
		sum += p
		for d := range h.Dim {
			o[d] += p * v[ko+d]
		}
	}
	for d := range o {
		o[d] /= sum
	}
	return o, math.Log(sum)
}

func TestCausalAttention(t *testing.T) {
	segs := []kernels.Segment{{Q0: 0, Q1: 3, K0: 0, K1: 5}, {Q0: 3, Q1: 7, K0: 5, K1: 9}}
	for _, window := range []int{0, 1, 2, 30} {
		h := kernels.Heads{Q: 4, KV: 2, Dim: 3, Scale: 0.6, Window: window}
		q, k, v, o := in(7, 12, 1), in(9, 6, 2), in(9, 6, 3), ref.Alloc(7, 12)
		ref.CausalAttention(o, q, k, v, segs, h)
		var want []float64
		for i := range 7 {
			first, self := 0, i+2
			if i >= 3 {
				first = 5
			}
			for head := range h.Q {
				oh, _ := attend64(wide(q), wide(k), wide(v), i, head, h, func(j int) bool {
					return j >= first && j <= self && (window == 0 || j > self-window)
				})
				want = append(want, oh...)
			}
		}
		near(t, fmt.Sprintf("o with window %d", window), o.F32, want, 5e-7)
	}
}

func TestBlockAttention(t *testing.T) {
	const context, size = 9, 3
	blocks := []kernels.Block{{Start: 0, Anchor: 0}, {Start: 0, Anchor: 3}, {Start: 4, Anchor: 4}, {Start: 4, Anchor: 8}}
	n := len(blocks) * size
	for _, window := range []int{0, 1, 2, 4, 30} {
		h := kernels.Heads{Q: 4, KV: 2, Dim: 3, Scale: 0.6, Window: window}
		q, kc, vc, kb, vb := in(n, 12, 1), in(context, 6, 2), in(context, 6, 3), in(n, 6, 4), in(n, 6, 5)
		o, lse, do := ref.Alloc(n, 12), ref.Alloc(n, 4), in(n, 12, 6)
		qs, kcs, vcs, kbs, vbs := wide(q), wide(kc), wide(vc), wide(kb), wide(vb)
		forward := func() (out, logs []float64) {
			k, v := append(append([]float64{}, kcs...), kbs...), append(append([]float64{}, vcs...), vbs...)
			for i := range n {
				b, s := blocks[i/size], i%size
				for head := range h.Q {
					oh, l := attend64(qs, k, v, i, head, h, func(j int) bool {
						if j < context {
							return j >= int(b.Start) && j < int(b.Anchor) && (window == 0 || j >= int(b.Anchor)+s-(window-1))
						}
						slot := j - context - i/size*size
						return slot >= 0 && slot < size && (window == 0 || slot <= s)
					})
					out, logs = append(out, oh...), append(logs, l)
				}
			}
			return out, logs
		}
		ref.BlockAttention(o, lse, q, kc, vc, kb, vb, blocks, size, h)
		wantO, wantLSE := forward()
		near(t, fmt.Sprintf("o with window %d", window), o.F32, wantO, 5e-7)
		near(t, fmt.Sprintf("lse with window %d", window), lse.F32, wantLSE, 5e-7)

		dq, dkc, dvc, dkb, dvb := in(n, 12, 7), in(context, 6, 7), in(context, 6, 7), in(n, 6, 7), in(n, 6, 7)
		ref.BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb, blocks, size, h)
		loss := func() float64 { out, _ := forward(); return inner(do, out) }
		for _, g := range []struct {
			name string
			got  kernels.Tensor
			x    []float64
		}{{"dq", dq, qs}, {"dkc", dkc, kcs}, {"dvc", dvc, vcs}, {"dkb", dkb, kbs}, {"dvb", dvb, vbs}} {
			near(t, fmt.Sprintf("%s with window %d", g.name, window), g.got.F32, slope(loss, g.x), 2e-6)
		}
	}
}
