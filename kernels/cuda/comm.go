//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

var _ base.Collective = (*Device)(nil)

// comm is a rank of an NCCL communicator. Its calls are made on a thread of its own, none of them blocks, and between two looks
// at what is under way the thread sees whether it is to be given up.
type comm struct {
	*thread
	lib    *nccl
	dev    *Device
	given  atomic.Bool // up
	handle uintptr
	stream cu.Stream
	after  cu.Event // all sums

	mu    sync.Mutex
	marks []cu.Event // in the device's work
	set   int        // of them since the last Wait
	over  bool       // no mark can be set any more
}

var errGivenUp = errors.New("the communicator was given up")

// lookEvery is how long the thread sleeps between two looks.
const lookEvery = 20 * time.Microsecond

// Peer is NCCL's version and the GPU's number among all GPUs there are.
func (d *Device) Peer() (base.Peer, error) {
	lib, err := NCCL()
	if err != nil {
		return base.Peer{}, err
	}
	id, err := d.gpu.UUID()
	if err != nil {
		return base.Peer{}, fmt.Errorf("cuda:%d: UUID: %w", d.ordinal, explain(err))
	}
	return base.Peer{Library: lib, Processor: id.String()}, nil
}

// Invite implements [base.Collective].
func (d *Device) Invite() ([]byte, error) {
	n, err := theNCCL()
	if err != nil {
		return nil, err
	}
	id := make([]byte, uniqueIDBytes)
	err = n.call("ncclGetUniqueId", n.uniqueID, uintptr(unsafe.Pointer(&id[0])))
	return id, err
}

// Join implements [base.Collective].
func (d *Device) Join(ctx context.Context, id []byte, rank, ranks int) (base.Comm, error) {
	n, err := theNCCL()
	if err != nil {
		return nil, err
	}
	if len(id) != uniqueIDBytes || rank < 0 || rank >= ranks {
		return nil, fmt.Errorf("cuda:%d: join as rank %d of %d by an id of %d bytes", d.ordinal, rank, ranks, len(id))
	}
	var gpu cu.CUContext
	if err := d.wait(func() (err error) { gpu, err = cu.CurrentContext(); return err }); err != nil {
		return nil, fmt.Errorf("cuda:%d: join: %w", d.ordinal, err)
	}
	c := &comm{thread: newThread(), lib: n, dev: d}
	err = c.during(ctx, func() error { return c.open(gpu, id, int32(rank), int32(ranks)) })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cuda:%d: join as rank %d of %d: %w", d.ordinal, rank, ranks, err), c.Close())
	}
	return c, nil
}

// open runs on the communicator's thread.
func (c *comm) open(gpu cu.CUContext, id []byte, rank, ranks int32) (err error) {
	if err := cu.SetCurrentContext(gpu); err != nil {
		return err
	}
	_, first, err := cu.StreamPriorityRange()
	if err != nil {
		return err
	}
	if c.stream, err = cu.MakeStreamWithPriority(first, cu.NonBlocking); err != nil { // a rank that waits for room keeps the others waiting
		return err
	}
	if c.after, err = cu.MakeEvent(cu.DisableTiming); err != nil {
		return err
	}
	config := commConfig{size: uint64(unsafe.Sizeof(commConfig{})), magic: configMagic, version: configVersion}
	var meeting uniqueID
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&meeting)), uniqueIDBytes), id)
	result := c.lib.initRank(&c.handle, ranks, meeting, rank, &config)
	if err := c.lib.failure("ncclCommInitRankConfig", result); err != nil {
		return err
	}
	return c.until(func() (bool, error) { return true, nil })
}

// until waits on the thread for NCCL to have done what it was asked, and then for more.
func (c *comm) until(more func() (bool, error)) error {
	for {
		var state int32
		if c.given.Load() {
			return errGivenUp
		}
		err := c.lib.call("ncclCommGetAsyncError", c.lib.asyncError, c.handle, uintptr(unsafe.Pointer(&state)))
		if err == nil {
			err = c.lib.failure("NCCL", state)
		}
		if err != nil {
			return err
		}
		if state == ncclSuccess {
			if ok, err := more(); ok || err != nil {
				return err
			}
		}
		time.Sleep(lookEvery)
	}
}

// during runs f on the thread, and has the communicator given up if ctx ends meanwhile.
func (c *comm) during(ctx context.Context, f func() error) error {
	stop := context.AfterFunc(ctx, func() { c.given.Store(true) })
	err := c.wait(func() error {
		if c.err != nil {
			return c.err
		}
		return f()
	})
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// Mark implements [base.Comm].
func (c *comm) Mark() func(context.Context) (bool, error) {
	e, err := c.mark()
	if err != nil {
		err = fmt.Errorf("cuda:%d: mark: %w", c.dev.ordinal, err)
		return func(context.Context) (bool, error) { return false, err }
	}
	return func(ctx context.Context) (ok bool, err error) {
		err = c.during(ctx, func() (err error) {
			ok, err = happened(e)
			return err
		})
		return ok, err
	}
}

// mark sets an event behind the device's work so far.
func (c *comm) mark() (e cu.Event, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return e, errGivenUp
	}
	err = c.dev.wait(func() (err error) {
		if c.dev.err != nil {
			return c.dev.err
		}
		if c.set == len(c.marks) {
			if e, err = cu.MakeEvent(cu.DisableTiming); err != nil {
				return err
			}
			c.marks = append(c.marks, e)
		}
		e = c.marks[c.set]
		return e.Record(c.dev.stream)
	})
	if err == nil {
		c.set++
	}
	return e, err
}

// happened says whether all work before an event is complete.
func happened(e cu.Event) (bool, error) {
	err := e.Query()
	if errors.Is(err, cu.NotReady) {
		return false, nil
	}
	return err == nil, err
}

// AllReduce implements [base.Comm].
func (c *comm) AllReduce(dst, src base.Tensor) {
	const op, float32Type, sum = "AllReduce", 7, 0
	base.Want(op, "src", src, dst.Rows, dst.Cols)
	wide(op, dst, src)
	to, from := at(op, dst), at(op, src)
	c.enqueue(&call{op, []any{shape(src)}}, func() error {
		err := c.lib.call("ncclAllReduce", c.lib.allReduce, uintptr(from), uintptr(to), uintptr(src.Len()), float32Type, sum, c.handle,
			*(*uintptr)(unsafe.Pointer(&c.stream)))
		if err != nil {
			return err
		}
		return c.until(func() (bool, error) { return true, nil })
	})
}

// Wait implements [base.Comm].
func (c *comm) Wait(ctx context.Context) error {
	err := c.during(ctx, func() error {
		if err := c.after.Record(c.stream); err != nil {
			return err
		}
		return c.until(func() (bool, error) { return happened(c.after) })
	})
	c.mu.Lock()
	c.set = 0
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("cuda:%d: %w", c.dev.ordinal, err)
	}
	return nil
}

// Close implements [base.Comm].
func (c *comm) Close() error {
	c.given.Store(true)
	err := c.wait(func() error { // first: the device itself may wait for what is under way here, and a mark for the device
		if c.handle == 0 {
			return nil
		}
		return c.lib.call("ncclCommAbort", c.lib.abort, c.handle)
	})
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	err = errors.Join(err, c.wait(func() error {
		var errs []error
		if c.stream != cu.NoStream {
			errs = append(errs, explain(c.stream.Synchronize()), explain(c.stream.Destroy()))
		}
		for _, e := range append(c.marks, c.after) {
			if e != (cu.Event{}) {
				errs = append(errs, explain(cu.DestroyEvent(&e)))
			}
		}
		return errors.Join(errs...)
	}))
	c.end()
	if err != nil {
		return fmt.Errorf("cuda:%d: leave a communicator: %w", c.dev.ordinal, err)
	}
	return nil
}
