package draft

import (
	"testing"
	"time"

	"penstock/kernels"
	"penstock/stages/internal/model"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// One copy of the weights is evaluated at a time, and none waits: it would be out of date, and take memory.
func TestNoEvaluationWaits(t *testing.T) {
	env := &runtime.Env{}
	env.Config.Eval.Prompts = "prompts.json" // which is not there
	e := newEvaluator(&worker.Worker{Env: env}, time.Now(), nil)
	d := &model.Drafter{Weights: model.NewParams(&kernels.Ref{}, nil)}
	offer := func(window uint32) {
		t.Helper()
		if err := e.offer(d, window); err != nil {
			t.Fatal(err)
		}
	}
	offer(1)
	s := <-e.jobs // it is being evaluated
	offer(2)
	if n := len(e.jobs); s.window != 1 || n != 0 {
		t.Errorf("window %d is evaluated, %d wait", s.window, n)
	}
	e.idle <- struct{}{}
	if offer(3); len(e.jobs) != 1 {
		t.Error("an idle evaluator takes nothing")
	}
}
