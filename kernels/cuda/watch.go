//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"time"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

var _ base.Watched = (*Device)(nil)

// watchEvery is how often the driver is asked whether the GPU still works. Of processes that share one through the Multi-Process
// Service all fail with the one that does, and none can begin before all have ended.
const watchEvery = 200 * time.Millisecond

// OnFailure implements [base.Watched].
func (d *Device) OnFailure(f func(error)) {
	_ = d.wait(func() error {
		ticker := time.NewTicker(watchEvery)
		d.onClose(func() error { ticker.Stop(); return nil })
		d.tick, d.look = ticker.C, func() {
			if !d.gone() {
				return
			}
			ticker.Stop()
			f(fmt.Errorf("cuda:%d: %w", d.ordinal, d.err))
		}
		return nil
	})
}

// gone reports whether the GPU itself has failed, and then says so in the device's failure: also where that is of an op before, which
// may be enqueued and not waited for. It runs on the device's thread.
func (d *Device) gone() bool {
	asked := d.stream.Query()
	if asked == nil || errors.Is(asked, cu.NotReady) {
		return false
	}
	switch {
	case d.err == nil:
		d.err = fmt.Errorf("%w, by another process or in an op up to %v: %w", base.ErrFailed, d.last, explain(asked))
	case !errors.Is(d.err, base.ErrFailed):
		d.err = fmt.Errorf("%w: %w", base.ErrFailed, d.err)
	}
	return true
}
