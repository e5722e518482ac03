//go:build cuda

package cuda

import (
	"errors"
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

// address is a place in device memory.
type address uintptr

// align is the alignment of allocations, and their smallest size.
const align = 256

func bytesOf(elements int) int64 { return int64(elements) * 4 }

// allocate runs on the device's thread. The memory lives until Close; contents are undefined.
func (d *Device) allocate(bytes int64) (address, error) {
	p, err := cu.MemAlloc(max(bytes, align))
	if err != nil {
		free, total, _ := cu.MemInfo()
		return 0, fmt.Errorf("allocate %d bytes (%d of %d free): %w", bytes, free, total, explain(err))
	}
	d.memory = append(d.memory, p)
	d.held.Add(max(bytes, align))
	return address(p), nil
}

// Half is the type that the device was opened with.
func (d *Device) Half() base.Type { return d.half }

// Allocated returns the bytes of device memory that tensors and ops have taken.
func (d *Device) Allocated() int64 { return d.held.Load() }

// Alloc returns a zeroed tensor of float32. If there is no room, Sync says so.
func (d *Device) Alloc(rows, cols int) base.Tensor { return d.alloc(rows, cols, base.Float32) }

// AllocHalf is Alloc for the half type.
func (d *Device) AllocHalf(rows, cols int) base.Tensor { return d.alloc(rows, cols, d.half) }

// Free waits for the work before it and gives t's memory back to the GPU.
func (d *Device) Free(t base.Tensor) {
	p := at("Free", t)
	d.keep(&call{"Free", []any{shape(t)}}, d.wait(func() error {
		if d.err != nil {
			return nil
		}
		return d.drop(buffer{p, int64(t.Bytes())})
	}))
}

func (d *Device) alloc(rows, cols int, of base.Type) base.Tensor {
	t := base.Tensor{Rows: rows, Cols: cols, Type: of, Ptr: align} // not nil, also when the allocation fails
	bytes := int64(t.Bytes())
	err := d.wait(func() error {
		if d.err != nil {
			return nil
		}
		p, err := d.allocate(bytes)
		if err != nil {
			return err
		}
		t.Ptr = uintptr(p)
		if bytes == 0 {
			return nil
		}
		return cu.MemsetD8Async(cu.DevicePtr(p), 0, bytes, d.stream)
	})
	d.keep(&call{"Alloc", []any{shape(t)}}, err)
	return t
}

// keep makes err the device's failure unless there was one before.
func (d *Device) keep(c *call, err error) {
	if err != nil {
		d.enqueue(c, func() error { return err })
	}
}

// Upload copies src to dst; src may change once it has returned.
func (d *Device) Upload(dst base.Tensor, src []float32) {
	base.Want("Upload", "src", base.Host(1, len(src), src), 1, dst.Len())
	if dst.Type == base.BFloat16 {
		raw := make([]byte, dst.Bytes())
		base.RoundBF16(raw, src)
		d.UploadBytes(dst, raw)
	} else if len(src) > 0 {
		d.send("Upload", dst, unsafe.Pointer(&src[0]))
	}
}

// UploadBytes copies dst's elements as they lie in memory; src may change once it has returned.
func (d *Device) UploadBytes(dst base.Tensor, src []byte) {
	base.WantBytes("UploadBytes", dst, src)
	if len(src) > 0 {
		d.send("UploadBytes", dst, unsafe.Pointer(&src[0]))
	}
}

func (d *Device) send(op string, dst base.Tensor, src unsafe.Pointer) {
	d.keep(&call{op, []any{shape(dst)}}, d.wait(func() error {
		if d.err != nil {
			return nil
		}
		// From memory that is not page-locked, the driver has taken the bytes when it returns.
		return cu.MemcpyHtoDAsync(cu.DevicePtr(at(op, dst)), src, int64(dst.Bytes()), d.stream)
	}))
}

// Download copies src to dst after the work before it.
func (d *Device) Download(dst []float32, src base.Tensor) {
	base.Want("Download", "dst", base.Host(1, len(dst), dst), 1, src.Len())
	if len(dst) == 0 {
		return
	}
	c := &call{"Download", []any{shape(src)}}
	if src.Type == base.BFloat16 {
		raw := make([]byte, src.Bytes())
		d.fetch(c, unsafe.Pointer(&raw[0]), at(c.op, src), int64(len(raw)))
		base.WidenBF16(dst, raw)
		return
	}
	d.fetch(c, unsafe.Pointer(&dst[0]), at(c.op, src), bytesOf(len(dst)))
}

// fetch copies device memory to host memory once the work before it is done. After a failure it leaves dst alone.
func (d *Device) fetch(c *call, dst unsafe.Pointer, src address, bytes int64) {
	d.keep(c, d.wait(func() error {
		if d.err != nil {
			return nil
		}
		if err := cu.MemcpyDtoHAsync(dst, cu.DevicePtr(src), bytes, d.stream); err != nil {
			return err
		}
		return d.finish()
	}))
}

// finish waits for the stream. What fails there is an op that ran, not the one that waits.
func (d *Device) finish() error {
	if err := d.stream.Synchronize(); err != nil {
		return fmt.Errorf("in an op up to %v (CUDA_LAUNCH_BLOCKING=1 tells which): %w", d.last, explain(err))
	}
	return nil
}

// Sync waits for the enqueued work and returns the first failure.
func (d *Device) Sync() error {
	err := d.wait(func() error {
		if d.err == nil {
			d.err = d.finish()
		}
		if d.err != nil {
			d.gone()
		}
		return d.err
	})
	d.flip()
	if err != nil {
		return fmt.Errorf("cuda:%d: %w", d.ordinal, err)
	}
	return nil
}

// Name is the device's number, the GPU and the version of cuBLASLt.
func (d *Device) Name() string {
	return fmt.Sprintf("cuda:%d (%s, cuBLASLt %d)", d.ordinal, d.name, d.blas.version)
}

// Close frees what the device holds and ends its thread.
func (d *Device) Close() error {
	for _, s := range d.stretches {
		if s != nil {
			<-s.done
		}
	}
	err := d.wait(func() error {
		var errs []error
		if d.stream != cu.NoStream {
			errs = append(errs, d.stream.Synchronize())
		}
		errs = append(errs, d.free())
		for i := len(d.closers) - 1; i >= 0; i-- {
			errs = append(errs, d.closers[i]())
		}
		return errors.Join(errs...)
	})
	d.end()
	if err != nil {
		return fmt.Errorf("close cuda:%d: %w", d.ordinal, err)
	}
	return nil
}

func (d *Device) free() error {
	var errs []error
	for _, p := range d.memory {
		errs = append(errs, cu.MemFree(p))
	}
	for i := range d.staging {
		for _, c := range d.staging[i].chunks {
			errs = append(errs, cu.MemFreeHost(c.host))
		}
		d.staging[i] = staging{}
	}
	d.memory = nil
	return errors.Join(errs...)
}

// at returns the address of a tensor of this device, 0 for the nil tensor.
func at(op string, t base.Tensor) address {
	if t.F32 != nil {
		panic(fmt.Sprintf("cuda: %s: a %d×%d tensor in host memory", op, t.Rows, t.Cols))
	}
	return address(t.Ptr)
}

// dims prints as rows×columns, and the type if it is not float32.
type dims struct {
	rows, cols int
	of         base.Type
}

func (s dims) String() string {
	if s.of != base.Float32 {
		return fmt.Sprintf("%d×%d %v", s.rows, s.cols, s.of)
	}
	return fmt.Sprintf("%d×%d", s.rows, s.cols)
}

func shape(t base.Tensor) dims { return dims{t.Rows, t.Cols, t.Type} }

// same returns the type that the first operands of an op have in common; nil tensors have none.
func same(op string, first base.Tensor, others ...base.Tensor) base.Type {
	for _, t := range others {
		if !t.IsNil() && t.Type != first.Type {
			panic(fmt.Sprintf("cuda: %s: operands of %v and %v: %v and %v", op, first.Type, t.Type, shape(first), shape(t)))
		}
	}
	return first.Type
}

// wide panics unless operands of an op are float32.
func wide(op string, operands ...base.Tensor) {
	for _, t := range operands {
		if t.Type != base.Float32 {
			panic(fmt.Sprintf("cuda: %s: an operand %v, want float32", op, shape(t)))
		}
	}
}
