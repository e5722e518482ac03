//go:build !amd64

package vec

const (
	hasAVX2   = false
	hasAVX512 = false
)

// None of these is called where hasAVX2 is false.

func maxAVX2(n int, x *float32) float32                                        { panic(unavailable) }
func dotAVX2(n int, a, b *float32) float32                                     { panic(unavailable) }
func dot3AVX2(n int, a, b, c *float32) float32                                 { panic(unavailable) }
func sumSquaresAVX2(n int, x *float32) float64                                 { panic(unavailable) }
func expSumAVX2(n int, x *float32, shift float32) float32                      { panic(unavailable) }
func expSumAVX512(n int, x *float32, shift float32) float32                    { panic(unavailable) }
func swigluAVX2(n int, out, gate, up *float32)                                 { panic(unavailable) }
func swigluBackwardAVX2(n int, dgate, dup, dout, gate, up *float32)            { panic(unavailable) }
func addAVX2(n int, dst, src *float32)                                         { panic(unavailable) }
func scaleAVX2(n int, dst, x *float32, s float32)                              { panic(unavailable) }
func scaledDifferenceAVX2(n int, x, p *float32, delta float32)                 { panic(unavailable) }
func ropeAVX2(n int, lo, hi, x, y, cos, sin *float32)                          { panic(unavailable) }
func normAVX2(n int, out, x, w *float32, r float32)                            { panic(unavailable) }
func normInputGradAVX2(n int, dx, dout, x, w *float32, r, m float32, add bool) { panic(unavailable) }
func normWeightGradAVX2(n int, dw, dout, x *float32, r float32)                { panic(unavailable) }
func adamwAVX2(n int, w, m, v, grad *float32, a *Adam)                         { panic(unavailable) }

const unavailable = "vec: assembly of another processor"
