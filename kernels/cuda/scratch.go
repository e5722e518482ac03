//go:build cuda

package cuda

import (
	"slices"
	"unsafe"

	"gorgonia.org/cu"

	base "penstock/kernels"
)

// What ops need beside their operands. Work in one stream is in order, so each purpose has one buffer.
const (
	partials   = iota // partial sums
	logits            // a chunk of rows of the vocabulary projection
	logitGrads        // and the gradient of its loss
	deltas            // do·o of block attention
	results           // what an op returns to the host
	splits            // partial sums of a matrix product
	buffers
)

// buffer is scratch memory that grows: the smaller one is given back before.
type buffer struct {
	at    address
	bytes int64
}

// scratch returns at least so many bytes; it runs on the device's thread.
func (d *Device) scratch(which int, bytes int64) (address, error) {
	b := &d.buffers[which]
	if bytes > b.bytes {
		old := *b
		*b = buffer{}
		if old.at != 0 {
			if err := d.drop(old); err != nil {
				return 0, err
			}
		}
		p, err := d.allocate(bytes)
		if err != nil {
			return 0, err
		}
		*b = buffer{p, bytes}
	}
	return b.at, nil
}

// drop frees memory once the work that uses it is done.
func (d *Device) drop(b buffer) error {
	p := b.at
	d.held.Add(-max(b.bytes, align))
	d.memory = slices.DeleteFunc(d.memory, func(q cu.DevicePtr) bool { return q == cu.DevicePtr(p) })
	if err := d.finish(); err != nil {
		return err
	}
	return cu.MemFree(cu.DevicePtr(p))
}

// stageBytes is the least size of a staging chunk.
const stageBytes = 1 << 20

// staging brings small lists of numbers to the device without waiting: page-locked host memory beside device memory of the
// same layout. What was put is valid until reset.
type staging struct {
	chunks []stage
	chunk  int // in use
	used   int // bytes of it
}

type stage struct {
	host  unsafe.Pointer
	dev   address
	bytes int
}

func (s *staging) reset() { s.chunk, s.used = 0, 0 }

// put copies v to the device; it is called by the caller's goroutine.
func (d *Device) put(c *call, v []int32) address {
	bytes := 4 * len(v)
	if bytes == 0 {
		return align
	}
	s := &d.staging[d.turn]
	for s.chunk < len(s.chunks) && s.used+bytes > s.chunks[s.chunk].bytes {
		s.chunk, s.used = s.chunk+1, 0
	}
	if s.chunk == len(s.chunks) {
		if err := d.wait(func() error { return d.addStage(s, max(bytes, stageBytes)) }); err != nil {
			d.keep(c, err)
			return align
		}
	}
	k := s.chunks[s.chunk]
	from, to := unsafe.Add(k.host, s.used), k.dev+address(s.used)
	copy(unsafe.Slice((*int32)(from), len(v)), v)
	s.used += (bytes + align - 1) / align * align
	d.enqueue(c, func() error { return cu.MemcpyHtoDAsync(cu.DevicePtr(to), from, int64(bytes), d.stream) })
	return to
}

func (d *Device) addStage(s *staging, bytes int) error {
	dev, err := d.allocate(int64(bytes))
	if err != nil {
		return err
	}
	host, err := allocPinned(bytes)
	if err != nil {
		return err
	}
	s.chunks = append(s.chunks, stage{host, dev, bytes})
	return nil
}

// Index uploads v. The result is valid until the second Sync after it.
func (d *Device) Index(v []int32) base.Index {
	return base.Index{N: len(v), Host: v, Ptr: uintptr(d.put(&call{"Index", []any{len(v)}}, v))}
}
