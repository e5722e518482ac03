package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// View is one tensor of an open file. Bytes are the mapped file's: read-only (a write faults) and gone after Close.
type View struct {
	Name  string
	DType DType
	Shape []int // empty for a scalar
	Bytes []byte
	file  string
}

// Len returns the number of elements.
func (v View) Len() int { return product(v.Shape) }

// Part returns n elements of v, those from element at on, as one row.
func (v View) Part(at, n int) View {
	size := v.DType.Size()
	v.Shape, v.Bytes = []int{n}, v.Bytes[at*size:(at+n)*size]
	return v
}

// Expect returns an error unless v has the shape.
func (v View) Expect(shape ...int) error {
	if !slices.Equal(v.Shape, shape) {
		return fmt.Errorf("%s: tensor %q has shape %v, want %v", v.file, v.Name, v.Shape, shape)
	}
	return nil
}

// Float32 returns a copy of v as float32, row-major. Floating-point types only; F64 is rounded, the others are exact.
func (v View) Float32() ([]float32, error) {
	out := make([]float32, v.Len())
	return out, v.CopyFloat32(out)
}

// CopyFloat32 is Float32 into dst, which must hold Len elements.
func (v View) CopyFloat32(dst []float32) error {
	if len(dst) != v.Len() {
		return fmt.Errorf("%s: tensor %q has %d elements, destination %d", v.file, v.Name, v.Len(), len(dst))
	}
	b := v.Bytes
	switch v.DType {
	case F64:
		for i := range dst {
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
		}
	case F32:
		decodeF32(dst, b)
	case F16:
		for i := range dst {
			dst[i] = F16ToFloat32(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = BF16ToFloat32(binary.LittleEndian.Uint16(b[2*i:]))
		}
	case F8E4M3:
		for i, c := range b {
			dst[i] = f8e4m3[c]
		}
	case F8E5M2:
		for i, c := range b {
			dst[i] = f8e5m2[c]
		}
	default:
		return fmt.Errorf("%s: tensor %q is %s, want a floating-point type", v.file, v.Name, v.DType)
	}
	return nil
}

// Int64 returns a copy of v as int64. Integer types only; a BOOL is 0 or 1.
func (v View) Int64() ([]int64, error) {
	if !v.DType.Integer() {
		return nil, fmt.Errorf("%s: tensor %q is %s, want an integer type", v.file, v.Name, v.DType)
	}
	out, b := make([]int64, v.Len()), v.Bytes
	for i := range out {
		switch v.DType {
		case I64:
			out[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		case I32:
			out[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		case I16:
			out[i] = int64(int16(binary.LittleEndian.Uint16(b[2*i:])))
		case I8:
			out[i] = int64(int8(b[i]))
		case U8:
			out[i] = int64(b[i])
		case Bool:
			if b[i] > 1 {
				return nil, fmt.Errorf("%s: tensor %q: element %d is %d, not a BOOL", v.file, v.Name, i, b[i])
			}
			out[i] = int64(b[i])
		}
	}
	return out, nil
}

// Int32 is Int64 for values that fit 32 bits; one that does not is an error.
func (v View) Int32() ([]int32, error) {
	wide, err := v.Int64()
	if err != nil {
		return nil, err
	}
	out := make([]int32, len(wide))
	for i, w := range wide {
		if w < math.MinInt32 || w > math.MaxInt32 {
			return nil, fmt.Errorf("%s: tensor %q: element %d is %d, out of 32 bits", v.file, v.Name, i, w)
		}
		out[i] = int32(w)
	}
	return out, nil
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
