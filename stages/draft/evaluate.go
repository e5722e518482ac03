package draft

import (
	"context"
	"fmt"
	"time"

	"penstock/schema/hf"
	"penstock/stages/internal/accept"
	"penstock/stages/internal/model"
	"penstock/stages/internal/worker"
)

// evaluator measures acceptance on held-out prompts beside the training, on a copy of the weights.
type evaluator struct {
	w     *worker.Worker
	began time.Time
	idle  chan struct{} // holds something while nothing is evaluated
	jobs  chan snapshot
	tell  func(metric) error
}

// snapshot is the drafter as it stood after a window.
type snapshot struct {
	window  uint32
	shape   hf.DrafterConfig
	weights map[string][]float32
}

func newEvaluator(w *worker.Worker, began time.Time, tell func(metric) error) *evaluator {
	e := &evaluator{w: w, began: began, idle: make(chan struct{}, 1), jobs: make(chan snapshot, 1), tell: tell}
	e.idle <- struct{}{}
	return e
}

// offer has the drafter evaluated, unless the evaluation before is not done yet.
func (e *evaluator) offer(d *model.Drafter, window uint32) error {
	if e.w.Config.Eval.Prompts == "" {
		return nil
	}
	select {
	case <-e.idle:
	default:
		return nil
	}
	s := snapshot{window: window, shape: d.Config, weights: map[string][]float32{}}
	for i := range d.Weights.Len() {
		name, _ := d.Weights.At(i)
		v, err := d.Weights.Read(name)
		if err != nil {
			return fmt.Errorf("copy weights to evaluate: %w", err)
		}
		s.weights[name] = v
	}
	e.jobs <- s
	return nil
}

// run evaluates what is offered until ctx ends. A failure to evaluate is logged; the training goes on.
func (e *evaluator) run(ctx context.Context) error {
	for {
		select {
		case s := <-e.jobs:
			r, err := e.measure(ctx, s)
			e.idle <- struct{}{}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				e.w.Log.Warn("evaluation failed", "window", s.window, "err", err)
				continue
			}
			m := metric{Window: s.window, AcceptLength: r.AcceptLength, PerPosition: r.PerPosition, Prompts: r.Prompts, Seconds: time.Since(e.began).Seconds()}
			if err := e.tell(m); err != nil {
				return err
			}
			e.w.Log.Info("acceptance", "window", s.window, "accept_length", r.AcceptLength, "prompts", r.Prompts)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (e *evaluator) measure(ctx context.Context, s snapshot) (accept.Report, error) {
	return accept.Measure(ctx, e.options(), func(w hf.Shape) ([]float32, error) {
		v, ok := s.weights[w.Name]
		if !ok {
			return nil, fmt.Errorf("no weight %q", w.Name)
		}
		return v, nil
	}, s.shape)
}

func (e *evaluator) options() accept.Options {
	c := e.w.Config
	return accept.Options{Device: e.w.Device, Target: c.Target.Dir, Prompts: c.Eval.Prompts, Limit: c.Eval.Limit, MaxNew: c.Eval.MaxNew}
}
