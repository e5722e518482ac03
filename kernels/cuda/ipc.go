//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"runtime"

	"gorgonia.org/cu"
)

// wholeBytes is the granularity of memory that other processes map: the driver maps whole allocations, and gives smaller
// ones out of a common one.
const wholeBytes = 2 << 20

// Memory is device memory that processes share: allocated in one, mapped in others. It outlives the devices that use it.
type Memory struct {
	gpu    cu.Device
	ctx    cu.CUContext
	at     cu.DevicePtr
	mapped bool
}

// NewMemory allocates zeroed memory on a GPU and returns the handle by which other processes map it.
func NewMemory(ordinal, bytes int) (*Memory, []byte, error) {
	m := &Memory{}
	var handle []byte
	err := m.begin(ordinal, func() (err error) {
		size := (int64(bytes) + wholeBytes - 1) / wholeBytes * wholeBytes
		if m.at, err = cu.MemAlloc(size); err != nil {
			return fmt.Errorf("allocate %d bytes: %w", size, explain(err))
		}
		if err = cu.MemsetD8Async(m.at, 0, size, cu.NoStream); err == nil {
			err = cu.Synchronize()
		}
		if err == nil {
			handle, err = ipcExport(m.at)
		}
		return explain(err)
	})
	if err != nil {
		return nil, nil, err
	}
	return m, handle, nil
}

// Free returns the bytes of a GPU's memory that nobody uses.
func Free(ordinal int) (bytes int64, err error) {
	m := &Memory{}
	err = m.begin(ordinal, func() (err error) {
		bytes, _, err = cu.MemInfo()
		return explain(err)
	})
	if err != nil {
		return 0, err
	}
	return bytes, explain(m.gpu.ReleasePrimaryCtx())
}

// OpenMemory maps what another process allocated on the owner GPU, for a device on the reader GPU. Its kernels may read it
// there if the two are one; on another it is to be copied first, with Device.Copy. It is slow, up to a millisecond, and holds
// the memory: that of a dead process is free once nobody has it mapped.
func OpenMemory(reader, owner int, handle []byte) (*Memory, error) {
	where, err := mapFor(reader, owner)
	if err != nil {
		return nil, err
	}
	m := &Memory{mapped: true}
	err = m.begin(where, func() (err error) {
		m.at, err = ipcOpen(handle)
		return err
	})
	if err != nil && reader != owner {
		return nil, fmt.Errorf("memory of cuda:%d for cuda:%d: %w", owner, reader, err)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// begin runs f in the GPU's context and gives the context up if f fails.
func (m *Memory) begin(ordinal int, f func() error) error {
	err := Driver()
	if err == nil {
		m.gpu, err = cu.GetDevice(ordinal)
	}
	if err == nil {
		m.ctx, err = m.gpu.RetainPrimaryCtx()
	}
	if err != nil {
		return fmt.Errorf("cuda:%d: %w", ordinal, explain(err))
	}
	if err := m.within(f); err != nil {
		err = fmt.Errorf("cuda:%d: %w", ordinal, err)
		if m.at != 0 {
			return errors.Join(err, m.Close())
		}
		return errors.Join(err, explain(m.gpu.ReleasePrimaryCtx()))
	}
	return nil
}

// within runs f on a thread whose current context is the memory's.
func (m *Memory) within(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cu.PushCurrentCtx(m.ctx); err != nil {
		return explain(err)
	}
	err := f()
	_, pop := cu.PopCurrentCtx()
	return errors.Join(err, explain(pop))
}

// Ptr is the address of the first byte.
func (m *Memory) Ptr() uintptr { return uintptr(m.at) }

// Close gives the memory back, or unmaps it. What still uses it must be done.
func (m *Memory) Close() error {
	err := m.within(func() error {
		if m.mapped {
			return ipcClose(m.at)
		}
		return explain(cu.MemFree(m.at))
	})
	return errors.Join(err, explain(m.gpu.ReleasePrimaryCtx()))
}
