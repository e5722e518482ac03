package batch

import (
	"context"

	"penstock/stages/internal/accept"
	"penstock/stages/internal/worker"
)

// warnOfOverlap warns of evaluation prompts that are trained on too. What keeps it from finding out ends no training.
func warnOfOverlap(ctx context.Context, w *worker.Worker, run *worker.RunPlan) error {
	cfg := w.Config
	if cfg.Eval.Prompts == "" {
		return nil
	}
	o, err := accept.FindOverlap(ctx, run.Store, accept.Options{Target: cfg.Target.Dir, Prompts: cfg.Eval.Prompts, Limit: cfg.Eval.Limit})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		w.Log.Warn("the evaluation's prompts cannot be looked for in the data", "err", err)
	case o.Known > 0:
		w.Log.Warn(o.Warning())
	}
	return nil
}
