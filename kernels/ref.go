package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Ref is the plain-Go device: every op written out in the most direct way, on one goroutine, over host memory.
// Sums over a row are taken in float64 and rounded once. It is the oracle of every other device, and a base to embed:
// a faster host device overrides what it does better. The zero value is ready to use.
type Ref struct{}

var _ Device = (*Ref)(nil)

// Name is "ref".
func (*Ref) Name() string { return "ref" }

// Half is Float32.
func (*Ref) Half() Type { return Float32 }

// Alloc returns a zeroed host tensor.
func (*Ref) Alloc(rows, cols int) Tensor { return Host(rows, cols, make([]float32, rows*cols)) }

// AllocHalf is Alloc.
func (r *Ref) AllocHalf(rows, cols int) Tensor { return r.Alloc(rows, cols) }

// Free leaves t to the garbage collector.
func (*Ref) Free(Tensor) {}

// Index wraps v without copying it.
func (*Ref) Index(v []int32) Index { return Index{N: len(v), Host: v} }

// Upload copies src into dst.
func (*Ref) Upload(dst Tensor, src []float32) {
	Want("Upload", "src", Host(1, len(src), src), 1, dst.Len())
	copy(dst.F32, src)
}

// Download copies src into dst.
func (*Ref) Download(dst []float32, src Tensor) {
	Want("Download", "dst", Host(1, len(dst), dst), 1, src.Len())
	copy(dst, src.F32)
}

// UploadBytes copies the bytes of float32 into dst.
func (*Ref) UploadBytes(dst Tensor, src []byte) {
	WantBytes("UploadBytes", dst, src)
	for i := range dst.F32 {
		dst.F32[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// Sync has nothing to wait for.
func (*Ref) Sync() error { return nil }

// Close has nothing to free.
func (*Ref) Close() error { return nil }

// Want panics unless t, the operand called name of op, is rows×cols.
func Want(op, name string, t Tensor, rows, cols int) {
	if t.Rows != rows || t.Cols != cols {
		panic(fmt.Sprintf("kernels: %s: %s is %d×%d, want %d×%d", op, name, t.Rows, t.Cols, rows, cols))
	}
}

// WantBytes panics unless src is as long as dst, the operand of op.
func WantBytes(op string, dst Tensor, src []byte) {
	if len(src) != dst.Bytes() {
		panic(fmt.Sprintf("kernels: %s: %d bytes for a %d×%d tensor of %v", op, len(src), dst.Rows, dst.Cols, dst.Type))
	}
}

// WantIndex panics unless x, the operand called name of op, has n entries.
func WantIndex(op, name string, x Index, n int) {
	if x.N != n {
		panic(fmt.Sprintf("kernels: %s: %s has %d entries, want %d", op, name, x.N, n))
	}
}

// row returns row i of a host tensor.
func row(t Tensor, i int) []float32 { return t.F32[i*t.Cols : (i+1)*t.Cols : (i+1)*t.Cols] }

// dot returns Σ a·b in float64.
func dot(a, b []float32) float64 {
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		x, y := a[i:i+4:i+4], b[i:i+4:i+4]
		s0 += float64(x[0]) * float64(y[0])
		s1 += float64(x[1]) * float64(y[1])
		s2 += float64(x[2]) * float64(y[2])
		s3 += float64(x[3]) * float64(y[3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return s0 + s1 + s2 + s3
}
