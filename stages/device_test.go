package stages_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"penstock/kernels"
	"penstock/schema"
	"penstock/schema/checkpoint"
	stageruntime "penstock/stages/internal/runtime"
	"penstock/stages/stagestest"
)

// failing is a device that fails as a whole, by what is done elsewhere.
type failing struct {
	kernels.Device
	gone atomic.Bool
	tell func(error)
}

func (f *failing) OnFailure(tell func(error)) { f.tell = tell }

func (f *failing) Sync() error {
	err := f.Device.Sync()
	if f.gone.Load() {
		err = f.failure()
	}
	return err
}

func (f *failing) failure() error { return fmt.Errorf("%w: a fault elsewhere", kernels.ErrFailed) }

// A device that fails while a stage begins is no reason not to begin it again.
func TestDeviceThatFailsAtFirst(t *testing.T) {
	for _, who := range []string{"target-1", "pack-1", "draft-1"} {
		t.Run(who, func(t *testing.T) {
			p := stagestest.New(t, stagestest.Config(t, 24, func(c *schema.Config) { c.Target.Instances = 1 }))
			p.Open = openAs(who, func(dev kernels.Device) kernels.Device {
				f := &failing{Device: dev}
				f.gone.Store(true)
				return f
			})
			if err := p.Run(t.Context(), nil); !errors.Is(err, kernels.ErrFailed) || stageruntime.IsPermanent(err) {
				t.Errorf("the run ends with %v, for good: %v", err, stageruntime.IsPermanent(err))
			}
		})
	}
}

// A stage ends with its device, whatever it does or waits for, and says so. A drafter that leads saves nothing from there.
func TestDeviceThatFailsLater(t *testing.T) {
	for _, who := range []string{"target-1", "pack-1", "draft-1"} {
		t.Run(who, func(t *testing.T) {
			p := stagestest.New(t, stagestest.Config(t, 60, func(c *schema.Config) {
				c.Target.Instances, c.Train.Epochs, c.Save.Every = 1, 50, 0
			}))
			var dev failing
			p.Open = openAs(who, func(d kernels.Device) kernels.Device {
				dev.Device = d
				return &dev
			})
			err := p.Run(t.Context(), func(ctx context.Context) error {
				return atWindow(ctx, p, 3, func() error { dev.tell(dev.failure()); return nil })
			})
			if !errors.Is(err, kernels.ErrFailed) || stageruntime.IsPermanent(err) {
				t.Errorf("it ends with %v", err)
			}
			if _, _, err := checkpoint.Latest(p.Dir.Checkpoints()); who == "draft-1" && !errors.Is(err, checkpoint.ErrNone) {
				t.Errorf("it saves: %v", err)
			}
		})
	}
}
