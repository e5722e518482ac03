package kernels

import "math"

// attention is one query of one head: its scores over the keys it sees, then their softmax.
type attention struct {
	q []float32
	h Heads
	p []float64
}

// span is rows [lo, hi) of a key or value tensor.
type span struct {
	t      Tensor
	lo, hi int
}

// part returns head's columns of row i.
func part(t Tensor, i, head int, h Heads) []float32 {
	return row(t, i)[head*h.Dim : (head+1)*h.Dim]
}

func (a *attention) reset(q []float32, h Heads) { a.q, a.h, a.p = q, h, a.p[:0] }

// group is the key head that a query head reads.
func (a *attention) group(head int) int { return head / (a.h.Q / a.h.KV) }

// keys appends the scores of rows [lo, hi).
func (a *attention) keys(k Tensor, lo, hi, head int) {
	for j := lo; j < hi; j++ {
		a.p = append(a.p, dot(a.q, part(k, j, a.group(head), a.h))*float64(a.h.Scale))
	}
}

// softmax turns the scores into probabilities and returns log Σ exp(score).
func (a *attention) softmax() float64 {
	top, sum := math.Inf(-1), 0.0
	for _, s := range a.p {
		top = max(top, s)
	}
	for i, s := range a.p {
		a.p[i] = math.Exp(s - top)
		sum += a.p[i]
	}
	for i := range a.p {
		a.p[i] /= sum
	}
	return top + math.Log(sum)
}

// write sets o to the probabilities' mean of the values, whose spans follow the order of the keys.
func (a *attention) write(o []float32, head int, values ...span) {
	sum, i := make([]float64, len(o)), 0
	for _, s := range values {
		for j := s.lo; j < s.hi; j++ {
			for d, v := range part(s.t, j, a.group(head), a.h) {
				sum[d] += a.p[i] * float64(v)
			}
			i++
		}
	}
	for d, s := range sum {
		o[d] = float32(s)
	}
}
