//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

var _ base.Later = (*Device)(nil)

// stretch is work up to a CheckLater, and room for its result. There are two, used in turn as the lists put are.
type stretch struct {
	dev  address        // checked
	host unsafe.Pointer // page-locked checked
	end  cu.Event       // after the result is on the host
	done chan struct{}  // closed once result and err are set; nil before the first use

	result checked
	err    error
}

// CheckLater enqueues CheckFeatures of x and returns at once, unless the work before the call before is not complete.
func (d *Device) CheckLater(x base.Tensor) func() (base.FeatureCheck, error) {
	from := at("CheckLater", x)
	s, before := d.stretches[d.turn], d.stretches[d.turn^1]
	if s != nil {
		<-s.done
	}
	next := &stretch{done: make(chan struct{})}
	if s != nil {
		next.dev, next.host, next.end = s.dev, s.host, s.end
	}
	var ctx cu.CUContext
	var last *call
	err := d.wait(func() (err error) {
		if d.err != nil {
			d.gone()
			return d.err
		}
		d.last, last = &call{"CheckLater", []any{shape(x)}}, d.last
		if ctx, err = cu.CurrentContext(); err != nil {
			return err
		}
		if s == nil {
			if err := d.equip(next); err != nil {
				return err
			}
		}
		if err := d.check(next.dev, from, x); err != nil {
			return err
		}
		if err := cu.MemcpyDtoHAsync(next.host, cu.DevicePtr(next.dev), checkedBytes, d.stream); err != nil {
			return err
		}
		return next.end.Record(d.stream)
	})
	if err != nil {
		err = fmt.Errorf("cuda:%d: CheckLater %v: %w", d.ordinal, shape(x), err)
		return func() (base.FeatureCheck, error) { return base.FeatureCheck{}, err }
	}
	d.stretches[d.turn] = next
	go next.await(ctx, d.ordinal, last)
	if before != nil {
		<-before.done
	}
	d.flip()
	return func() (base.FeatureCheck, error) {
		<-next.done
		return next.result.of(x), next.err
	}
}

// equip runs on the device's thread.
func (d *Device) equip(s *stretch) (err error) {
	if s.dev, err = d.allocate(checkedBytes); err != nil {
		return err
	}
	if s.host, err = allocPinned(int(checkedBytes)); err != nil {
		return err
	}
	if s.end, err = cu.MakeEvent(cu.BlockingSyncEvent | cu.DisableTiming); err != nil {
		return errors.Join(err, cu.MemFreeHost(s.host))
	}
	host, end := s.host, s.end
	d.onClose(func() error { return errors.Join(cu.MemFreeHost(host), cu.DestroyEvent(&end)) })
	return nil
}

// await waits for the end of the stretch on a thread of its own.
func (s *stretch) await(ctx cu.CUContext, ordinal int, last *call) {
	defer close(s.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cu.PushCurrentCtx(ctx)
	if err == nil {
		err = s.end.Synchronize()
		_, pop := cu.PopCurrentCtx()
		err = errors.Join(explain(err), explain(pop))
	}
	if err != nil {
		s.err = fmt.Errorf("cuda:%d: %w, in an op up to %v (CUDA_LAUNCH_BLOCKING=1 tells which): %w", ordinal, base.ErrFailed, last, explain(err))
		return
	}
	s.result = *(*checked)(s.host)
}

// flip begins the next stretch of lists put. Those of the stretch before the last are used no more.
func (d *Device) flip() {
	d.turn ^= 1
	d.staging[d.turn].reset()
	d.causal.forget()
}
