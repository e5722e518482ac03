package kernels

import "fmt"

// Type is the type of a tensor's elements.
type Type uint8

// The types. Host devices know Float32 alone.
const (
	Float32  Type = iota
	BFloat16      // the upper half of a float32: its sign, its exponent, seven bits of its fraction
)

// Bytes returns the size of an element.
func (t Type) Bytes() int {
	if t == BFloat16 {
		return 2
	}
	return 4
}

// String is the name of the type.
func (t Type) String() string {
	if t == BFloat16 {
		return "bfloat16"
	}
	return "float32"
}

// Tensor is a dense row-major matrix in a device's memory. A vector is one row.
// On a host device F32 holds the elements; on a GPU it is nil and Ptr is the address.
type Tensor struct {
	Rows, Cols int
	Type       Type
	F32        []float32
	Ptr        uintptr
}

// Len returns the number of elements.
func (t Tensor) Len() int { return t.Rows * t.Cols }

// Bytes returns the size of the elements together.
func (t Tensor) Bytes() int { return t.Len() * t.Type.Bytes() }

// IsNil reports whether t refers to no memory; ops take a nil tensor for an optional operand.
func (t Tensor) IsNil() bool { return t.F32 == nil && t.Ptr == 0 }

// RowRange returns rows [lo, hi) of t, sharing its memory.
func (t Tensor) RowRange(lo, hi int) Tensor {
	if lo < 0 || hi < lo || hi > t.Rows {
		panic(fmt.Sprintf("kernels: rows [%d, %d) of a tensor with %d rows", lo, hi, t.Rows))
	}
	v := Tensor{Rows: hi - lo, Cols: t.Cols, Type: t.Type}
	if t.F32 != nil {
		v.F32 = t.F32[lo*t.Cols : hi*t.Cols : hi*t.Cols]
	} else if t.Ptr != 0 {
		v.Ptr = t.Ptr + uintptr(lo*t.Cols*t.Type.Bytes())
	}
	return v
}

// Reshape returns t's memory as rows×cols; the number of elements must not change.
func (t Tensor) Reshape(rows, cols int) Tensor {
	if rows*cols != t.Len() {
		panic(fmt.Sprintf("kernels: reshape %d×%d to %d×%d", t.Rows, t.Cols, rows, cols))
	}
	t.Rows, t.Cols = rows, cols
	return t
}

// Host wraps v, which must hold rows·cols elements, as a host tensor.
func Host(rows, cols int, v []float32) Tensor {
	if len(v) != rows*cols {
		panic(fmt.Sprintf("kernels: %d elements for a %d×%d tensor", len(v), rows, cols))
	}
	return Tensor{Rows: rows, Cols: cols, F32: v}
}

// Index is a list of row numbers, token ids or positions in a device's memory.
type Index struct {
	N    int
	Host []int32
	Ptr  uintptr
}

// Segment is one document's part of an attention call: query rows [Q0, Q1) and key rows [K0, K1).
// The last query is aligned with the last key, so K1-K0 > Q1-Q0 means that earlier keys come from a cache.
type Segment struct{ Q0, Q1, K0, K1 int32 }

// Block is one DFlash block of a packed row: it may attend to context rows [Start, Anchor), the part of
// its own document before its anchor, and to its own slots.
type Block struct{ Start, Anchor int32 }

// Heads is the geometry of one attention layer. Query rows hold Q·Dim values, key and value rows KV·Dim.
type Heads struct {
	Q, KV, Dim int
	Scale      float32 // applied to every score, Dim^-½ unless the model says otherwise
	Window     int     // 0: full attention; W: the sliding rule of the op
}

// Rope is a table of inverse frequencies, Dim/2 of them, and the factor applied to cos and sin
// (1 except for YaRN). Angles are computed in float32 as position·InvFreq, NeoX half rotation.
type Rope struct {
	InvFreq []float32
	Factor  float32
}

// Adam is the setting of one AdamW update (Loshchilov and Hutter, 2019; decoupled decay).
type Adam struct {
	LR, Beta1, Beta2, Eps, Decay float32
	Step                         int     // 1 for the first update
	GradScale                    float32 // multiplies the gradient first: 1/Σweight and the clip factor
}

// FeatureCheck is what CheckFeatures saw.
type FeatureCheck struct {
	Finite   bool
	Zero     bool // every element is zero
	Constant bool // every row equals the first (more than one row)
	Checksum uint64
}
