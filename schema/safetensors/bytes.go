package safetensors

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"
)

// inPlace says that values lie in this machine's memory as they lie in a file.
var inPlace = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// memory is the memory of v.
func memory(v []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}

// encoder turns values into a file's bytes.
type encoder struct{ buf []byte }

// encode returns v as elements of F32 or BF16, which are v's own memory or good until the next call.
func (c *encoder) encode(v []float32, as DType) []byte {
	if as == F32 && inPlace {
		return memory(v)
	}
	n := as.Size() * len(v)
	c.buf = slices.Grow(c.buf[:0], n)[:n]
	if as == F32 {
		for i, f := range v {
			binary.LittleEndian.PutUint32(c.buf[4*i:], math.Float32bits(f))
		}
		return c.buf
	}
	for out := c.buf; len(v) > 0; v, out = v[1:], out[2:] {
		binary.LittleEndian.PutUint16(out, BF16FromFloat32(v[0]))
	}
	return c.buf
}

// decodeF32 reads elements of F32 from b, one for each of dst.
func decodeF32(dst []float32, b []byte) {
	if inPlace {
		copy(memory(dst), b)
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}
