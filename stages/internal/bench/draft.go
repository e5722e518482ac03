package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"penstock/schema"
	"penstock/schema/hf"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/model"
)

// Draft measures the training step: forward, loss, backward and optimizer, one step a batch, on random captures.
func Draft(ctx context.Context, o Options) (Report, error) {
	if err := o.Check(); err != nil {
		return Report{}, err
	}
	dev, err := backend.Open(o.Device)
	if err != nil {
		return Report{}, err
	}
	r, err := draft(ctx, o, newProfiler(dev))
	if err != nil {
		err = fmt.Errorf("bench draft: %w", err)
	}
	return r, errors.Join(err, dev.Close())
}

func draft(ctx context.Context, o Options, dev *profiler) (Report, error) {
	t, err := model.FillTarget(dev, o.Model.Open(), 1, model.Repeat(dev, 0)) // for its vocabulary
	if err != nil {
		return Report{}, err
	}
	cfg := o.Model.Drafter()
	d, err := model.FillDrafter(dev, cfg, t.Vocabulary, model.Repeat(dev, 1))
	if err != nil {
		return Report{}, err
	}
	d.Slots = schema.Default().Train.Slots
	if err := d.Rehearse([]model.Shape{o.largest()}); err != nil {
		return Report{}, err
	}
	grads := d.Weights.Like()
	opt := model.NewOptimizer(dev, d.Weights, model.AdamW{Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Clip: 1})
	loss := model.Loss{Kind: model.DFlash, Gamma: schema.DefaultGamma(cfg.BlockSize)}

	hidden := dev.AllocHalf(o.Batch*o.Lengths.Longest(), len(cfg.Taps)*cfg.TargetHiddenSize)
	if err := model.Repeat(dev, 2)(hidden, hf.Shape{Dims: []int{hidden.Rows, hidden.Cols}}); err != nil {
		return Report{}, err
	}
	dev.Scale(hidden, 50) // to a deviation of 1

	return o.measure(ctx, dev, cfg.Geometry, func(b batch) (work, error) {
		res, err := d.Step(&model.Batch{IDs: b.ids, Mask: b.mask, Offsets: b.offsets, Anchors: b.anchors, Hidden: hidden.RowRange(0, len(b.ids))}, loss, grads)
		if err != nil {
			return work{}, err
		}
		began := time.Now() // the loss is read: all before is done
		if _, err := opt.Step(grads, res.Den, 1e-4); err != nil {
			return work{}, err
		}
		grads.Zero()
		err = dev.Sync()
		return work{slots: res.Slots, flops: draftFlops(o.Model, b, res.Slots), optimizer: time.Since(began).Seconds()}, err
	})
}
