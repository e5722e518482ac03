package vec

import "golang.org/x/sys/cpu"

// The cpu package reports an extension only if the operating system saves its registers.
var (
	hasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	hasAVX512 = hasAVX2 && cpu.X86.HasAVX512F
)

// The functions below take n elements, a multiple of 16 above 0.

//go:noescape
func maxAVX2(n int, x *float32) float32

//go:noescape
func dotAVX2(n int, a, b *float32) float32

//go:noescape
func dot3AVX2(n int, a, b, c *float32) float32

//go:noescape
func sumSquaresAVX2(n int, x *float32) float64

//go:noescape
func expSumAVX2(n int, x *float32, shift float32) float32

//go:noescape
func expSumAVX512(n int, x *float32, shift float32) float32

//go:noescape
func swigluAVX2(n int, out, gate, up *float32)

//go:noescape
func swigluBackwardAVX2(n int, dgate, dup, dout, gate, up *float32)

//go:noescape
func addAVX2(n int, dst, src *float32)

//go:noescape
func scaleAVX2(n int, dst, x *float32, s float32)

//go:noescape
func scaledDifferenceAVX2(n int, x, p *float32, delta float32)

//go:noescape
func ropeAVX2(n int, lo, hi, x, y, cos, sin *float32)

//go:noescape
func normAVX2(n int, out, x, w *float32, r float32)

//go:noescape
func normInputGradAVX2(n int, dx, dout, x, w *float32, r, m float32, add bool)

//go:noescape
func normWeightGradAVX2(n int, dw, dout, x *float32, r float32)

//go:noescape
func adamwAVX2(n int, w, m, v, grad *float32, a *Adam)
