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
			err := d.stream.Query()
			if d.err != nil || err == nil || errors.Is(err, cu.NotReady) {
				return
			}
			ticker.Stop()
			d.err = fmt.Errorf("the GPU failed with nothing to do: %w", explain(err))
			f(fmt.Errorf("cuda:%d: %w", d.ordinal, d.err))
		}
		return nil
	})
}
