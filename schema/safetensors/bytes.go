package safetensors

import (
	"encoding/binary"
	"slices"
	"unsafe"
)

// inPlace says that numbers lie in this machine's memory as they lie in a file.
var inPlace = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// memory is the memory of v.
func memory[T float32 | uint16](v []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(one)))
}

// encoder turns values into a file's bytes. It keeps its memory from call to call.
type encoder struct {
	half []uint16
	buf  []byte
}

// encode returns v as elements of F32 or BF16: v's own memory, or what is good until the next call.
func (c *encoder) encode(v []float32, as DType) []byte {
	if as == F32 {
		if inPlace {
			return memory(v)
		}
		return c.swap(v)
	}
	c.half = slices.Grow(c.half[:0], len(v))[:len(v)]
	for i, f := range v {
		c.half[i] = BF16FromFloat32(f)
	}
	if inPlace {
		return memory(c.half)
	}
	return c.swap(c.half)
}

// swap returns a slice of numbers in a file's order of bytes.
func (c *encoder) swap(v any) []byte {
	c.buf, _ = binary.Append(c.buf[:0], binary.LittleEndian, v) // fails for types of no fixed size alone
	return c.buf
}

// decodeF32 reads elements of F32 from b, one for each of dst.
func decodeF32(dst []float32, b []byte) {
	if inPlace {
		copy(memory(dst), b)
		return
	}
	_, _ = binary.Decode(b, binary.LittleEndian, dst) // b is long enough
}
