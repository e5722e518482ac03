package safetensors

// DType is an element type, spelled as in the header.
type DType string

// The element types that View converts.
const (
	F64    DType = "F64"
	F32    DType = "F32"
	F16    DType = "F16"
	BF16   DType = "BF16"
	F8E4M3 DType = "F8_E4M3" // finite only, bias 7, one NaN pattern per sign (OCP 8-bit floating point, 2023)
	F8E5M2 DType = "F8_E5M2" // IEEE-like, bias 15
	I64    DType = "I64"
	I32    DType = "I32"
	I16    DType = "I16"
	I8     DType = "I8"
	U8     DType = "U8"
	Bool   DType = "BOOL"
)

var sizes = map[DType]int{
	F64: 8, F32: 4, F16: 2, BF16: 2, F8E4M3: 1, F8E5M2: 1,
	I64: 8, I32: 4, I16: 2, I8: 1, U8: 1, Bool: 1,
}

// Size returns the bytes of one element, or 0 for a type that this package does not know.
func (d DType) Size() int { return sizes[d] }

// Float reports whether View.Float32 converts d.
func (d DType) Float() bool {
	switch d {
	case F64, F32, F16, BF16, F8E4M3, F8E5M2:
		return true
	}
	return false
}

// Integer reports whether View.Int64 and View.Int32 convert d.
func (d DType) Integer() bool { return d.Size() > 0 && !d.Float() }
