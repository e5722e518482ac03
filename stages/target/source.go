package target

import (
	"errors"
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/stages/internal/features"
	"penstock/stages/internal/model"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/worker"
)

// source writes the captures of a packed batch into out [K·T, H], a plane a tap.
type source interface {
	captures(p plan.BatchPlan, packed plan.Packed, out kernels.Tensor) error
	// rehearse takes the device memory that batches of these shapes need.
	rehearse(shapes []model.Shape) error
	close() error
}

// open returns the source of the run's captures with the target's shape: the model's layers up to the last tap, or stored
// features in their place.
func open(dev kernels.Device, w *worker.Worker) (source, hf.Geometry, error) {
	w.Status.Wait("the model to load")
	cfg := w.Config.Target
	t, err := hf.OpenTarget(cfg.Dir)
	if err != nil {
		return nil, hf.Geometry{}, err
	}
	defer t.Close()
	if err := hf.CheckTaps(cfg.Taps, t.Layers); err != nil {
		return nil, hf.Geometry{}, fmt.Errorf("target.taps of %s: %w", cfg.Dir, err)
	}
	if cfg.Features != "" {
		r, err := features.Open(cfg.Features)
		if err != nil {
			return nil, hf.Geometry{}, fmt.Errorf("target.features: %w", err)
		}
		mark, err := t.Fingerprint()
		if err == nil {
			err = r.CheckTarget(mark)
		}
		if err != nil {
			return nil, hf.Geometry{}, errors.Join(fmt.Errorf("target.features %s: %w", cfg.Features, err), r.Close())
		}
		return &stored{dev, r}, t.Geometry, nil
	}
	m, err := model.LoadTarget(dev, t, cfg.Taps[len(cfg.Taps)-1]+1)
	if err != nil {
		return nil, hf.Geometry{}, fmt.Errorf("load target %s: %w", cfg.Dir, err)
	}
	return &forward{m, cfg.Taps}, t.Geometry, nil
}

// check refuses stored features that were not made for the run's data.
func check(s source, w *worker.Worker, run *worker.RunPlan, geo hf.Geometry) error {
	if r, ok := s.(*stored); ok {
		if err := r.Check(run.Data(), w.Config.Target.Taps, geo.HiddenSize); err != nil {
			return fmt.Errorf("target.features %s: %w", w.Config.Target.Features, err)
		}
	}
	return nil
}

// forward runs the model.
type forward struct {
	model *model.Target
	taps  []int
}

func (f *forward) captures(_ plan.BatchPlan, packed plan.Packed, out kernels.Tensor) error {
	return f.model.Forward(packed.IDs, packed.Offsets, f.taps, out)
}

func (f *forward) rehearse(shapes []model.Shape) error { return f.model.Rehearse(shapes, f.taps) }

func (f *forward) close() error { return nil }

// stored reads what the model said before.
type stored struct {
	dev kernels.Device
	*features.Reader
}

func (s *stored) captures(p plan.BatchPlan, packed plan.Packed, out kernels.Tensor) error {
	return s.Load(s.dev, p.Docs, packed.IDs, packed.Offsets, out)
}

func (s *stored) rehearse([]model.Shape) error { return nil }

func (s *stored) close() error { return s.Close() }
