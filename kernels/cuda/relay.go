//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"penstock/kernels/relay"
)

// relayBytes is the size of a chunk of page-locked memory through which bytes get from GPU to GPU: many times what is in
// flight on the bus, and nothing beside what is copied.
const relayBytes = 16 << 20

// relayed is the way from another GPU's memory, which this one does not reach, to this one's. It belongs to the device's thread.
type relayed struct {
	sink   cu.Stream // of the device
	gpu    cu.Device // the source
	ctx    cu.CUContext
	source cu.Stream // in ctx
	chunks [relay.Chunks]unsafe.Pointer
	marks  [2][relay.Chunks]cu.Event // of each side, in its context
	marked [2][relay.Chunks]bool

	to, from address // of the copy that is enqueued
}

// relay enqueues a copy from a GPU that is not reached. It runs on the device's thread.
func (d *Device) relay(owner int, to, from address, bytes int64) error {
	r := d.relays[owner]
	if r == nil {
		r = &relayed{sink: d.stream}
		if err := r.open(owner); err != nil {
			return errors.Join(fmt.Errorf("copy from cuda:%d through host memory: %w", owner, explain(err)), r.close())
		}
		if d.relays == nil {
			d.relays = map[int]*relayed{}
		}
		d.relays[owner] = r
		d.onClose(r.close)
	}
	r.to, r.from = to, from
	return relay.Copy(r, bytes, relayBytes)
}

func (r *relayed) open(owner int) (err error) {
	for i := range r.chunks {
		if r.chunks[i], err = allocPinned(relayBytes); err != nil {
			return err
		}
		if r.marks[relay.Sink][i], err = cu.MakeEvent(cu.DisableTiming); err != nil {
			return err
		}
	}
	if r.gpu, err = cu.GetDevice(owner); err != nil {
		return err
	}
	if r.ctx, err = r.gpu.RetainPrimaryCtx(); err != nil {
		return err
	}
	return r.there(func() (err error) {
		if r.source, err = cu.MakeStream(cu.NonBlocking); err != nil {
			return err
		}
		for i := range r.chunks {
			if r.marks[relay.Source][i], err = cu.MakeEvent(cu.DisableTiming); err != nil {
				return err
			}
		}
		return nil
	})
}

// there runs f with the source's context current.
func (r *relayed) there(f func() error) error {
	if err := cu.PushCurrentCtx(r.ctx); err != nil {
		return err
	}
	err := f()
	if _, pop := cu.PopCurrentCtx(); err == nil {
		err = pop
	}
	return err
}

// on runs f with the context of a side current, and gives it that side's stream.
func (r *relayed) on(side relay.Side, f func(cu.Stream) error) error {
	if side == relay.Sink {
		return f(r.sink)
	}
	return r.there(func() error { return f(r.source) })
}

// Move implements [relay.Pipe].
func (r *relayed) Move(side relay.Side, chunk int, offset, n int64) error {
	return r.on(side, func(s cu.Stream) error {
		if side == relay.Source {
			return cu.MemcpyDtoHAsync(r.chunks[chunk], cu.DevicePtr(r.from)+cu.DevicePtr(offset), n, s)
		}
		return cu.MemcpyHtoDAsync(cu.DevicePtr(r.to)+cu.DevicePtr(offset), r.chunks[chunk], n, s)
	})
}

// Mark implements [relay.Pipe].
func (r *relayed) Mark(side relay.Side, chunk int) error {
	r.marked[side][chunk] = true
	return r.on(side, func(s cu.Stream) error { return r.marks[side][chunk].Record(s) })
}

// Await implements [relay.Pipe]. A stream may wait for an event of another context.
func (r *relayed) Await(side relay.Side, chunk int) error {
	other := 1 - side
	if !r.marked[other][chunk] {
		return nil
	}
	return r.on(side, func(s cu.Stream) error { return s.Wait(r.marks[other][chunk], 0) })
}

// close gives everything back, as far as there is any; the sink's work is done.
func (r *relayed) close() error {
	var errs []error
	var none cu.Event
	drop := func(events [relay.Chunks]cu.Event) {
		for _, e := range events {
			if e != none {
				errs = append(errs, cu.DestroyEvent(&e))
			}
		}
	}
	if r.ctx != (cu.CUContext{}) {
		errs = append(errs, r.there(func() error {
			drop(r.marks[relay.Source])
			if r.source == cu.NoStream {
				return nil
			}
			return errors.Join(r.source.Synchronize(), r.source.Destroy())
		}))
	}
	drop(r.marks[relay.Sink])
	for _, p := range r.chunks {
		if p != nil {
			errs = append(errs, cu.MemFreeHost(p))
		}
	}
	if r.ctx != (cu.CUContext{}) {
		errs = append(errs, r.gpu.ReleasePrimaryCtx())
	}
	return errors.Join(errs...)
}
