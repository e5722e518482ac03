package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"penstock/stages/internal/backend"
	"penstock/stages/internal/model"
)

// Target measures the frozen forward with its captures. It ends at the last tap, as it does in a run.
func Target(ctx context.Context, o Options) (Report, error) {
	if err := o.Check(); err != nil {
		return Report{}, err
	}
	opened, err := backend.Open(o.Device)
	if err != nil {
		return Report{}, err
	}
	dev := newProfiler(opened)
	layers := slices.Max(o.Model.Taps) + 1
	t, err := model.FillTarget(dev, o.Model.Open(), layers, model.Repeat(dev, 0))
	if err != nil {
		return Report{}, errors.Join(err, dev.Close())
	}
	taps := len(o.Model.Taps)
	out := dev.AllocHalf(taps*o.Batch*o.Lengths.Longest(), o.Model.Target.HiddenSize)
	r, err := o.measure(ctx, dev, o.Model.Target, func(b batch) (work, error) {
		err := t.Forward(b.ids, b.offsets, o.Model.Taps, out.RowRange(0, taps*len(b.ids)))
		if err == nil {
			err = dev.Sync()
		}
		return work{flops: targetFlops(o.Model, layers, b.offsets)}, err
	})
	if err != nil {
		err = fmt.Errorf("bench target: %w", err)
	}
	return r, errors.Join(err, dev.Close())
}
