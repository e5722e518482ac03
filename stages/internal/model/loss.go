package model

import (
	"fmt"
	"math"
)

// LossKind names an objective.
type LossKind string

// The objectives. With m = 1 on trained slots and k the slot within its block:
//
//	DFlash  Σ m·e^(-(k-1)/γ)·ce / Σ m·e^(-(k-1)/γ), without decay if γ is 0 (DFlash, eq. 4)
//	DPace   Σ m·W·ce, W_k = Σ_{j≥k} m_j·Π_{i≤j} ((1-α)·e^(-ce_i) + α over trained slots); the denominator is 1 a batch
const (
	DFlash LossKind = "dflash"
	DPace  LossKind = "dpace"
)

// Loss is the objective of a run.
type Loss struct {
	Kind  LossKind
	Gamma float64 // decay of DFlash; 0 for none
	Alpha float64 // floor of DPace's confidence
}

// Check returns an error for an objective that is not known.
func (l Loss) Check() error {
	switch {
	case l.Kind != DFlash && l.Kind != DPace:
		return fmt.Errorf("loss %q: want %s or %s", l.Kind, DFlash, DPace)
	case l.Gamma < 0 || l.Alpha < 0 || l.Alpha > 1:
		return fmt.Errorf("loss: gamma %v must not be negative, alpha %v must lie in [0, 1]", l.Gamma, l.Alpha)
	}
	return nil
}

// weights returns the factor of each slot's cross-entropy in the numerator, [N·B], and the denominator.
// ce is read by DPace alone, where m is 1.
func (l Loss) weights(m []uint8, ce []float32, size int) (w []float32, den float64) {
	if l.Kind == DPace {
		return l.pace(m, ce, size), 1
	}
	w = make([]float32, len(m))
	for i, on := range m {
		if on == 0 {
			continue
		}
		w[i] = 1
		if l.Gamma > 0 {
			w[i] = float32(math.Exp(-float64(i%size-1) / l.Gamma))
		}
		den += float64(w[i])
	}
	return w, den
}

func (l Loss) pace(m []uint8, ce []float32, size int) []float32 {
	w := make([]float32, len(m))
	for first := 0; first < len(m); first += size {
		prefix, tail := make([]float64, size), 0.0
		p := 1.0
		for k := range size {
			if m[first+k] != 0 {
				p *= (1-l.Alpha)*math.Exp(-float64(ce[first+k])) + l.Alpha
			}
			prefix[k] = p
		}
		for k := size - 1; k >= 0; k-- {
			if m[first+k] != 0 {
				tail += prefix[k]
				w[first+k] = float32(tail)
			}
		}
	}
	return w
}

// entropy returns the decay-weighted cross-entropy of slots: what DFlash has for loss, whatever the objective.
func (l Loss) entropy(m []uint8, ce []float32, size int) (num, den float64) {
	w, den := Loss{Kind: DFlash, Gamma: l.Gamma}.weights(m, nil, size)
	for i, x := range w {
		num += float64(x) * float64(ce[i])
	}
	return num, den
}

// Result is what a step on one batch saw. The loss is Num/Den after both are summed over a window, and so is the
// decay-weighted cross-entropy, which can be read and compared whatever the loss.
type Result struct {
	Num, Den float64

	EntropyNum, EntropyDen float64

	Blocks   int
	Slots    int     // trained slots, Σ m
	Hits     int     // trained slots whose label is the drafter's first choice
	Accepted int     // Σ Accept
	At       []Place // per slot of a block, [B]

	CE     []float32 // [N·B], 0 where m is 0
	Weight []uint8   // [N·B], m
	Hit    []uint8   // [N·B]
	Accept []int     // [N], each block's trained slots before its first miss
}

// Place counts one slot of the block over all blocks. Of its trained slots, Hits are right and Accepted are right with all
// before them in their block, as a verification would accept them.
type Place struct{ Slots, Hits, Accepted int }

// Add sums counts and loss over batches; the per-slot lists stay those of r.
func (r *Result) Add(o Result) {
	r.Num, r.Den = r.Num+o.Num, r.Den+o.Den
	r.EntropyNum, r.EntropyDen = r.EntropyNum+o.EntropyNum, r.EntropyDen+o.EntropyDen
	r.Blocks, r.Slots, r.Hits, r.Accepted = r.Blocks+o.Blocks, r.Slots+o.Slots, r.Hits+o.Hits, r.Accepted+o.Accepted
	if len(r.At) == 0 {
		r.At = make([]Place, len(o.At))
	}
	for k, p := range o.At {
		r.At[k].Slots += p.Slots
		r.At[k].Hits += p.Hits
		r.At[k].Accepted += p.Accepted
	}
}

// count fills the sums from the per-slot lists.
func (r *Result) count(size int) {
	r.At, r.Blocks = make([]Place, size), len(r.Weight)/size
	r.Accept = make([]int, r.Blocks)
	for i, on := range r.Weight {
		if on == 0 {
			continue
		}
		at := &r.At[i%size]
		r.Slots++
		at.Slots++
		if r.Hit[i] != 0 {
			r.Hits++
			at.Hits++
		}
	}
	for n := range r.Accept {
		weight, hit := r.Weight[n*size:(n+1)*size], r.Hit[n*size:(n+1)*size]
		for k, on := range weight {
			if on == 0 {
				continue
			}
			if hit[k] == 0 {
				break
			}
			r.Accept[n]++
			r.At[k].Accepted++
		}
		r.Accepted += r.Accept[n]
	}
}
