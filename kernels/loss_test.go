package kernels_test

import (
	"math"
	"slices"
	"testing"

	"penstock/kernels"
)

func TestHeadLoss(t *testing.T) {
	const rows, hidden, vocab = 5, 6, 13
	h, head, weight := in(rows, hidden, 1), in(vocab, hidden, 2), kernels.Host(rows, 1, []float32{1, 0.5, 0, 2, 1})
	labels := ref.Index([]int32{3, 0, 12, 7, 7})
	hs, ws := wide(h), wide(head)
	logits := func(i int) []float64 {
		z := make([]float64, vocab)
		for v := range z {
			for j := range hidden {
				z[v] += hs[i*hidden+j] * ws[v*hidden+j]
			}
		}
		return z
	}
	losses := func() []float64 {
		ce := make([]float64, rows)
		for i := range ce {
			z, sum := logits(i), 0.0
			for _, v := range z {
				sum += math.Exp(v)
			}
			ce[i] = math.Log(sum) - z[labels.Host[i]]
		}
		return ce
	}
	top := make([]int32, rows)
	hits := make([]float64, rows)
	for i := range rows {
		z := logits(i)
		top[i] = int32(slices.Index(z, slices.Max(z)))
		if top[i] == labels.Host[i] {
			hits[i] = 1
		}
	}
	ce, hit, dh := ref.Alloc(rows, 1), ref.Alloc(rows, 1), ref.Alloc(rows, hidden)
	ref.HeadLoss(ce, hit, dh, h, head, weight, labels)
	near(t, "ce", ce.F32, losses(), 5e-7)
	near(t, "hit", hit.F32, hits, 0)
	near(t, "dh", dh.F32, slope(func() float64 { return inner(weight, losses()) }, hs), 1e-6)
	if got := ref.Argmax(h, head); !slices.Equal(got, top) {
		t.Errorf("Argmax = %v, want %v", got, top)
	}
}

func TestTiesGoToTheFirst(t *testing.T) {
	h, head := kernels.Host(1, 1, []float32{1}), kernels.Host(4, 1, []float32{0, 2, 2, 1})
	if got := ref.Argmax(h, head); got[0] != 1 {
		t.Errorf("Argmax = %d, want the first maximum, 1", got[0])
	}
	for label, want := range map[int32]float32{1: 1, 2: 0} {
		ce, hit := ref.Alloc(1, 1), ref.Alloc(1, 1)
		ref.HeadLoss(ce, hit, kernels.Tensor{}, h, head, kernels.Tensor{}, ref.Index([]int32{label}))
		if hit.F32[0] != want {
			t.Errorf("hit for label %d = %v, want %v", label, hit.F32[0], want)
		}
	}
}
