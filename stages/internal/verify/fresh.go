package verify

import (
	"fmt"
	"math"

	"penstock/stages/internal/model"
)

const (
	initFile    = "drafter_init.safetensors"
	summaryFile = "summary.json"
	gradFile    = "drafter_grad.safetensors"
	afterFile   = "drafter_after_1_step.safetensors"
)

// losses of summary.json, with their names there.
var objectives = []struct {
	name string
	loss func(gamma float64) model.Loss
}{
	{"dflash", func(gamma float64) model.Loss { return model.Loss{Kind: model.DFlash, Gamma: gamma} }},
	{"dflash_nodecay", func(float64) model.Loss { return model.Loss{Kind: model.DFlash} }},
	{"dpace", func(float64) model.Loss { return model.Loss{Kind: model.DPace, Alpha: 0.5} }},
}

// outcome is one objective in summary.json.
type outcome struct {
	Num        float64            `json:"loss_num"`
	Den        float64            `json:"loss_den"`
	Hits       int                `json:"hits"`
	Weight     float64            `json:"weight"`
	AcceptMean float64            `json:"accept_mean"`
	GradNorm   float64            `json:"grad_norm"`
	GradNorms  map[string]float64 `json:"grad_norms"`
}

// summary is summary.json.
type summary struct {
	DFlash    *outcome           `json:"dflash"`
	NoDecay   *outcome           `json:"dflash_nodecay"`
	DPace     *outcome           `json:"dpace"`
	GradNorms map[string]float64 `json:"grad_norms"` // of dflash
	Curve     []float64          `json:"adamw_lr6e-4_wd0.01_clip1_losses"`
}

const curveKey = "adamw_lr6e-4_wd0.01_clip1_losses"

// empty says that no check comes from the file.
func (s *summary) empty() bool {
	return s.DFlash == nil && s.NoDecay == nil && s.DPace == nil && len(s.Curve) == 0
}

func (s *summary) outcomes() map[string]*outcome {
	if s.DFlash != nil {
		s.DFlash.GradNorms = s.GradNorms
	}
	return map[string]*outcome{"dflash": s.DFlash, "dflash_nodecay": s.NoDecay, "dpace": s.DPace}
}

// fresh checks the drafter of drafter_init: losses, gradients, one optimizer step and six.
func (r *run) fresh() error {
	c, ok, err := r.config()
	if err != nil || !ok || !r.golden.has(initFile, stepFile) {
		return err
	}
	b, err := r.row(r.golden, c)
	if err != nil {
		return err
	}
	d, err := r.drafter(c, initFile)
	if err != nil {
		return err
	}
	var s summary
	if r.golden.has(summaryFile) {
		if err := r.golden.json(summaryFile, &s); err != nil {
			return err
		}
		if s.empty() {
			return fmt.Errorf("%s holds nothing to compare: want dflash, dflash_nodecay, dpace or %s", r.golden.path(summaryFile), curveKey)
		}
	}
	grads, want := d.Weights.Like(), s.outcomes()
	for i := len(objectives) - 1; i >= 0; i-- { // dflash last: its gradients are looked at below
		o := objectives[i]
		grads.Zero()
		got, err := d.Step(b, o.loss(c.Gamma), grads)
		if err != nil {
			return err
		}
		r.dev.Scale(grads.Flat, float32(1/got.Den))
		if err := r.outcome(o.name, got, grads, want[o.name]); err != nil {
			return err
		}
		if o.name == "dflash" {
			if err := r.stepResults(got, grads); err != nil {
				return err
			}
		}
	}
	if !r.BF16 && r.golden.has(afterFile) {
		if err := r.oneStep(c, d, grads, s); err != nil {
			return err
		}
	}
	return r.curve(c, d, b, grads, s.Curve)
}

// outcome compares one objective with the summary.
func (r *run) outcome(name string, got model.Result, grads *model.Params, want *outcome) error {
	if want == nil {
		return nil
	}
	r.number(name+".loss_num", got.Num, want.Num, r.limits.loss)
	r.number(name+".loss_den", got.Den, want.Den, r.limits.loss)
	r.number(name+".slots", float64(got.Slots), want.Weight, 0)
	if !r.BF16 {
		r.number(name+".hits", float64(got.Hits), float64(want.Hits), 0)
		r.number(name+".accept_mean", float64(got.Accepted)/float64(got.Blocks), want.AcceptMean, r.limits.loss)
	}
	worst, at := 0.0, ""
	for tensor, norm := range want.GradNorms {
		g := grads.Tensor(tensor)
		if g.IsNil() {
			return fmt.Errorf("%s: %s: gradient norm of %q, which the drafter does not have", summaryFile, name, tensor)
		}
		if e := math.Abs(math.Sqrt(r.dev.SumSquares(g))-norm) / norm; !(e <= worst) {
			worst, at = e, tensor
		}
	}
	if len(want.GradNorms) > 0 {
		r.add(name+".grad_norms", worst, r.limits.gradient, at)
	}
	r.number(name+".grad_norm", math.Sqrt(r.dev.SumSquares(grads.Flat)), want.GradNorm, r.limits.gradient)
	return r.dev.Sync()
}

// stepResults compares the decay-weighted step slot by slot and gradient by gradient.
func (r *run) stepResults(got model.Result, grads *model.Params) error {
	t, err := r.golden.open(stepFile)
	if err != nil {
		return err
	}
	if t.Has("ce") && t.Has("weight") {
		r.slots("dflash", got, t)
	}
	if err := t.close(); err != nil || !r.golden.has(gradFile) {
		return err
	}
	return r.compare(gradFile, "gradient.", grads, r.limits.gradient)
}

// compare checks each tensor of a file against a set.
func (r *run) compare(file, prefix string, got *model.Params, tolerance float64) error {
	f, err := r.golden.open(file)
	if err != nil {
		return err
	}
	names, err := matching(f.File, got)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range names {
		v, err := got.Read(name)
		if err != nil {
			return err
		}
		r.near(prefix+name, v, f.floats(name), tolerance)
	}
	return f.close()
}
