package verify

import (
	"fmt"
	"math"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
	"penstock/schema/hf"
	"penstock/stages/internal/model"
)

// The optimizer's settings in the golden folder.
const (
	goldenLR    = 6e-4
	goldenClip  = 1.0
	goldenDecay = 0.01
)

// Limits of the weights after a step. The first AdamW step is nearly lr·sign(g): where a gradient is all rounding, a weight
// made from one's own gradient may end on the other side.
const (
	fromGoldenLimit = 1e-6
	ownElementLimit = 1e-4 // of the tensor's maximum, beyond which an element counts as off
	ownShareLimit   = 1e-4 // share of the elements that may be off
)

func goldenOptimizer(dev kernels.Device, weights *model.Params) *model.Optimizer {
	return model.NewOptimizer(dev, weights, model.AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: goldenDecay, Clip: goldenClip})
}

// oneStep compares the weights after one step, made from the golden gradients and from grads, the drafter's own.
func (r *run) oneStep(c hf.DrafterConfig, d *model.Drafter, grads *model.Params, s summary) error {
	if r.golden.has(gradFile) && s.DFlash != nil {
		if err := r.fromGolden(d, s.DFlash.GradNorm); err != nil {
			return err
		}
	}
	own, err := r.drafter(c, initFile)
	if err != nil {
		return err
	}
	if _, err := goldenOptimizer(r.dev, own.Weights).Step(grads, 1, goldenLR); err != nil {
		return err
	}
	f, err := r.golden.open(afterFile)
	if err != nil {
		return err
	}
	names, err := matching(f.File, own.Weights)
	if err != nil {
		return fmt.Errorf("%s: %w", afterFile, err)
	}
	elements, off, furthest := 0, 0, 0.0
	for _, name := range names {
		got, err := own.Weights.Read(name)
		if err != nil {
			return err
		}
		want := f.floats(name)
		if len(got) != len(want) {
			return fmt.Errorf("%s: %s has %d elements, want %d", afterFile, name, len(want), len(got))
		}
		top := 0.0
		for _, w := range want {
			top = max(top, math.Abs(float64(w)))
		}
		for i, w := range want {
			e := math.Abs(float64(got[i]) - float64(w))
			furthest = max(furthest, e)
			if elements++; !(e <= ownElementLimit*top) {
				off++
			}
		}
	}
	detail := fmt.Sprintf("%d of %d elements off, the furthest by %.3g", off, elements, furthest)
	r.add("after_1_step.own.share_off", float64(off)/float64(max(elements, 1)), ownShareLimit, detail)
	r.add("after_1_step.own.furthest_over_2lr", furthest/(2*goldenLR), 1, detail)
	return f.close()
}

// fromGolden makes the step tensor by tensor: the file leaves out large ones, so the norm comes from the summary.
func (r *run) fromGolden(d *model.Drafter, norm float64) error {
	g, err := r.golden.open(gradFile)
	if err != nil {
		return err
	}
	after, err := r.golden.open(afterFile)
	if err != nil {
		return err
	}
	a := kernels.Adam{LR: goldenLR, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: goldenDecay, Step: 1,
		GradScale: float32(min(1, goldenClip/(norm+1e-6)))}
	names, err := matching(g.File, d.Weights)
	if err != nil {
		return fmt.Errorf("%s: %w", gradFile, err)
	}
	for _, name := range names {
		if !after.Has(name) {
			continue
		}
		w, err := d.Weights.Read(name)
		if err != nil {
			return err
		}
		rows, cols := d.Weights.Tensor(name).Rows, d.Weights.Tensor(name).Cols
		t := kernelstest.New(r.dev, rows, cols, w)
		r.dev.AdamW(t, kernels.Tensor{}, r.dev.Alloc(rows, cols), r.dev.Alloc(rows, cols), kernelstest.New(r.dev, rows, cols, g.floats(name)), a)
		r.near("after_1_step.golden."+name, kernelstest.Read(r.dev, t), after.floats(name), fromGoldenLimit)
	}
	if err := g.close(); err != nil {
		return err
	}
	return after.close()
}

// curve repeats the steps on one row and compares the losses.
func (r *run) curve(c hf.DrafterConfig, d *model.Drafter, b *model.Batch, grads *model.Params, want []float64) error {
	o, loss := goldenOptimizer(r.dev, d.Weights), objectives[0].loss(c.Gamma)
	for i, w := range want {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		grads.Zero()
		got, err := d.Step(b, loss, grads)
		if err != nil {
			return err
		}
		r.number(fmt.Sprintf("curve.loss_%d", i), got.Num/got.Den, w, r.limits.loss)
		if _, err := o.Step(grads, got.Den, goldenLR); err != nil {
			return err
		}
	}
	return nil
}
