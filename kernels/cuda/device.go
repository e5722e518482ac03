//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

// Device is one GPU. It is used by one goroutine.
type Device struct {
	*thread
	ordinal int
	half    base.Type
	name    string

	multiprocessors int
	warpsOnly       bool // attention does without warpgroup kernels, so that their twins can be tested where they are

	// The thread's own, once open has returned.
	gpu       cu.Device
	stream    cu.Stream
	functions []cu.Function
	blas      *blas
	memory    []cu.DevicePtr
	held      atomic.Int64 // bytes of memory
	buffers   [buffers]buffer
	closers   []func() error

	relays map[int]*relayed // by the GPU that this one does not reach

	stretches [2]*stretch // of work that is waited for elsewhere

	staging [2]staging // lists put since the latest Sync, and those between it and the one before
	turn    int        // which is which
	ropes   []ropeTable
	causal  causalPlan
}

var _ base.Device = (*Device)(nil)

// Open starts GPU number ordinal with a half type. It fails if there is no such GPU, no cuBLASLt, or no kernels for it.
func Open(ordinal int, half base.Type) (*Device, error) {
	d := &Device{thread: newThread(), ordinal: ordinal, half: half}
	err := d.wait(d.open)
	if err == nil {
		err = d.wait(d.openBLAS)
	}
	if err != nil {
		err = fmt.Errorf("cuda:%d: %w", ordinal, err)
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Probe tries what [Open] does and returns the GPU's name. The process holds none of the GPU's memory afterwards, which
// cuBLASLt, once in use, would keep.
func Probe(ordinal int) (string, error) {
	d := &Device{thread: newThread(), ordinal: ordinal}
	err := d.wait(d.open)
	if err == nil {
		_, err = openBLAS()
	}
	if err != nil {
		err = fmt.Errorf("cuda:%d: %w", ordinal, err)
	}
	return fmt.Sprintf("cuda:%d (%s)", ordinal, d.name), errors.Join(err, d.Close())
}

// onClose adds what Close does after the memory is freed, last first.
func (d *Device) onClose(f func() error) { d.closers = append(d.closers, f) }

// open runs on the device's thread.
func (d *Device) open() error {
	if err := Driver(); err != nil {
		return err
	}
	count, err := cu.NumDevices()
	if err != nil {
		return fmt.Errorf("count GPUs: %w", explain(err))
	}
	if d.ordinal < 0 || d.ordinal >= count {
		return fmt.Errorf("no such GPU: this machine has %d", count)
	}
	if d.gpu, err = cu.GetDevice(d.ordinal); err != nil {
		return fmt.Errorf("open GPU: %w", explain(err))
	}
	if d.name, err = d.gpu.Name(); err != nil {
		return fmt.Errorf("name of the GPU: %w", explain(err))
	}
	if d.multiprocessors, err = d.gpu.Attribute(cu.MultiprocessorCount); err != nil {
		return fmt.Errorf("multiprocessors of the GPU: %w", explain(err))
	}
	ctx, err := d.gpu.RetainPrimaryCtx()
	if err != nil {
		return fmt.Errorf("context: %w", explain(err))
	}
	d.onClose(d.gpu.ReleasePrimaryCtx)
	if err := cu.SetCurrentContext(ctx); err != nil {
		return fmt.Errorf("context: %w", explain(err))
	}
	if d.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return fmt.Errorf("stream: %w", explain(err))
	}
	d.onClose(d.stream.Destroy)
	d.functions, err = d.loadKernels()
	return err
}

// openBLAS runs on the device's thread.
func (d *Device) openBLAS() (err error) {
	major, _, err := d.gpu.ComputeCapability()
	if err != nil {
		return fmt.Errorf("compute capability of the GPU: %w", explain(err))
	}
	if d.blas, err = loadBLAS(*(*uintptr)(unsafe.Pointer(&d.stream)), productSpace(major)); err != nil {
		return err
	}
	d.onClose(d.blas.close)
	return nil
}
