package verify

import (
	"context"
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/stages/internal/model"
)

// Options says what to verify.
type Options struct {
	TargetDir string
	GoldenDir string
	BF16      bool // the device computes in bf16: its tolerances
	Decode    int  // at most so many decode cases; 0 for all
}

// limits are the tolerances of one precision.
type limits struct{ captures, loss, gradient float64 }

// One rounding to bfloat16 is up to 0.2 % of a value, and what comes out of a layer has been rounded a dozen times. On the demo's
// golden folders, whose answers are those of float32, an H200 is off by 0.7 % of the largest capture or logit, 0.14 % of the
// largest loss and 1.5 % of the largest gradient of a tensor, where attention keeps its probabilities in float32. The limits
// allow three to seven times as much: roundings that fall otherwise, or of probabilities too, not another result.
var (
	float32Limits = limits{captures: 1e-4, loss: 1e-4, gradient: 1e-3}
	bf16Limits    = limits{captures: 3e-2, loss: 1e-2, gradient: 5e-2}
)

// logitGap is the distance between two logits below which bf16 may choose either.
const logitGap = 0.5

// run is one verification under way.
type run struct {
	Report
	Options
	limits
	ctx    context.Context
	dev    kernels.Device
	golden folder
	target *hf.Target
	model  *model.Target // loaded when a check first needs it
}

// Run makes every check that the golden folder's files allow. A check that fails is in the report; an error means that a
// file is missing, torn or does not fit the others.
func Run(ctx context.Context, dev kernels.Device, o Options) (Report, error) {
	r := &run{Report: Report{OK: true}, Options: o, limits: float32Limits, ctx: ctx, dev: dev, golden: folder(o.GoldenDir)}
	if o.BF16 {
		r.limits = bf16Limits
	}
	t, err := hf.OpenTarget(o.TargetDir)
	if err != nil {
		return r.Report, err
	}
	defer t.Close()
	r.target = t
	for _, part := range []func() error{r.tokenizer, r.chat, r.forward, r.fresh, r.trained} {
		if err := ctx.Err(); err != nil {
			return r.Report, err
		}
		if err := part(); err != nil {
			return r.Report, fmt.Errorf("verify %s: %w", o.GoldenDir, err)
		}
	}
	if len(r.Checks) == 0 {
		return r.Report, fmt.Errorf("verify %s: the folder holds no golden file that belongs to a check: want %s, or %s; or %s; or %s with %s and %s; or %s with %s",
			o.GoldenDir, tokenizerFile, chatFile, forwardFile, initFile, configFile, stepFile, trainedFile, decodeFile)
	}
	return r.Report, nil
}

// loaded returns the target on the device.
func (r *run) loaded() (*model.Target, error) {
	if r.model == nil {
		m, err := model.LoadTarget(r.dev, r.target, r.target.Layers)
		if err != nil {
			return nil, err
		}
		r.model = m
	}
	return r.model, nil
}
