package model

import (
	"fmt"
	"math"

	"penstock/kernels"
)

// AdamW is the setting of an Optimizer.
type AdamW struct {
	Beta1, Beta2, Eps, Decay float64
	Clip                     float64 // largest norm of the gradient; 0 for no limit
}

// Optimizer updates a drafter's weights (Loshchilov and Hutter, 2019; decay on every tensor).
type Optimizer struct {
	AdamW
	Weights, M, V *Params
	Steps         int // updates made
	dev           kernels.Device
}

// NewOptimizer starts at step 0 with zero moments.
func NewOptimizer(dev kernels.Device, weights *Params, a AdamW) *Optimizer {
	return &Optimizer{AdamW: a, Weights: weights, M: weights.Like(), V: weights.Like(), dev: dev}
}

// NonFiniteError says that a step was not made because a gradient is infinite or not a number.
type NonFiniteError struct{ Tensor string }

func (e *NonFiniteError) Error() string {
	return fmt.Sprintf("the gradient of %s is not finite: step skipped", e.Tensor)
}

// Step updates the weights from the sum of a window's gradients divided by den, clipped as a whole, and returns the
// norm before clipping. On a *NonFiniteError nothing has changed; the caller goes on without the step.
func (o *Optimizer) Step(grads *Params, den, lr float64) (norm float64, err error) {
	if !(den > 0) || math.IsInf(den, 0) {
		return 0, fmt.Errorf("optimizer step: the denominator is %v", den)
	}
	norm = math.Sqrt(o.dev.SumSquares(grads.Flat)) / den
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm, o.nonFinite(grads)
	}
	scale := 1 / den
	if o.Clip > 0 {
		scale *= min(1, o.Clip/(norm+1e-6))
	}
	o.Steps++
	o.dev.AdamW(o.Weights.Flat, o.Weights.copied(), o.M.Flat, o.V.Flat, grads.Flat, kernels.Adam{
		LR: float32(lr), Beta1: float32(o.Beta1), Beta2: float32(o.Beta2), Eps: float32(o.Eps), Decay: float32(o.AdamW.Decay),
		Step: o.Steps, GradScale: float32(scale)})
	if err := o.dev.Sync(); err != nil {
		return norm, fmt.Errorf("optimizer step %d: %w", o.Steps, err)
	}
	return norm, nil
}

// nonFinite names the first tensor whose gradient is not finite, or reports the device's own failure.
func (o *Optimizer) nonFinite(grads *Params) error {
	if err := o.dev.Sync(); err != nil {
		return fmt.Errorf("optimizer step: %w", err)
	}
	for i := range grads.Len() {
		name, g := grads.At(i)
		if s := o.dev.SumSquares(g); math.IsNaN(s) || math.IsInf(s, 0) {
			return &NonFiniteError{name}
		}
	}
	return &NonFiniteError{"all tensors together"}
}
