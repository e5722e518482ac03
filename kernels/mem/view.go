package mem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"penstock/kernels"
	"penstock/schema"
)

// View is an importer's side. It is safe for concurrent use.
type View struct {
	info  schema.PoolInfo
	g     geometry
	owner net.Conn // ends with the owner
	lock  *os.File // held while memory is mapped
	lost  atomic.Bool

	mu   sync.RWMutex // held for reading while memory is read
	ctl  control
	data memory // nil once closed
}

func openView(ctx context.Context, k kind, info schema.PoolInfo, runDir string, gpu int) (_ *View, err error) {
	g, err := announced(info)
	if err != nil {
		return nil, err
	}
	v := &View{info: info, g: g}
	defer func() {
		if err != nil {
			err = errors.Join(err, v.close())
		}
	}()
	if v.lock, err = holdMapped(runDir, info.Pool); err != nil {
		return nil, err
	}
	conn, fds, err := receive(ctx, runDir, info.Socket, info.Incarnation, 1+k.fds)
	if err != nil {
		return nil, err
	}
	v.owner = conn
	defer closeAll(fds) // the mappings keep the memory
	if v.ctl, err = mapSealed(fds[0], controlBytes(g.slots)); err != nil {
		return nil, err
	}
	if err = v.ctl.check(info.Incarnation, g); err != nil {
		return nil, err
	}
	if v.data, err = k.open(info, g, fds[1:], gpu); err != nil && !errors.Is(err, ErrForged) && v.ends() {
		err = fmt.Errorf("%w: the owner of pool %q ended while its memory was mapped: %v", ErrStale, info.Pool, err)
	}
	return v, err
}

// ends reports whether the owner has ended, or does so in a moment: the memory of a dying one is gone before its socket.
func (v *View) ends() bool {
	_ = v.owner.SetReadDeadline(time.Now().Add(passDeadline))
	_, err := v.owner.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// Info is the announcement that the view was made from.
func (v *View) Info() schema.PoolInfo { return v.info }

// Generation reads a slot's generation word.
func (v *View) Generation(slot uint32) (uint64, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.data == nil {
		return 0, v.over()
	}
	if slot >= v.info.Slots {
		return 0, fmt.Errorf("%w: slot %d of %d", ErrForged, slot, v.info.Slots)
	}
	return v.ctl.word(slot).Load(), nil
}

// Read calls f with the first rows·cols elements of the slot that ref names, to be read only. It returns ErrStale,
// without calling f or after it, if the use that ref names is over: then f's result is to be discarded. f returns
// when its copies and kernels have finished, and keeps no reference.
func (v *View) Read(ref schema.SlotRef, rows, cols int, f func(kernels.Tensor) error) error {
	if err := checkRef(v.info, ref); err != nil {
		return err
	}
	from, t, err := v.g.tensor(ref.Slot, rows, cols)
	if err != nil {
		return err
	}
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.data == nil {
		return v.over()
	}
	return readAt(v.ctl, ref, func() error { return f(v.data.at(from, t)) })
}

// over says why the view is closed.
func (v *View) over() error {
	if v.lost.Load() {
		return fmt.Errorf("%w: the owner of pool %q has ended", ErrStale, v.info.Pool)
	}
	return ErrClosed
}

// await returns when the owner has ended, or the view is closed.
func (v *View) await() {
	_, err := io.Copy(io.Discard, v.owner)
	v.lost.Store(!errors.Is(err, net.ErrClosed))
}

// close waits for the reads under way.
func (v *View) close() error {
	var errs []error
	if v.owner != nil {
		v.owner.Close()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.data != nil {
		errs = append(errs, v.data.close())
	}
	if v.ctl != nil {
		errs = append(errs, unix.Munmap(v.ctl))
	}
	if v.lock != nil {
		v.lock.Close()
	}
	v.ctl, v.data, v.lock = nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("unmap pool %q: %w", v.info.Pool, err)
	}
	return nil
}
