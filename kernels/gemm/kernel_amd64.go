package gemm

import "golang.org/x/sys/cpu"

// kernels returns those that the processor and the operating system support. The cpu package reports a vector
// extension only if the system saves its registers.
func kernels() []kernel {
	avx2 := kernel{
		name: "avx2", mr: 6, nr: 16, tile: tileAVX2,
		copy6: copy6AVX2, copy16: copy16AVX2, transpose: transposeAVX2, dots: dotsAVX2,
	}
	avx512 := avx2
	avx512.name, avx512.mr, avx512.nr, avx512.tile = "avx512", 12, 32, tileAVX512
	var ks []kernel
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		if cpu.X86.HasAVX512F {
			ks = append(ks, avx512)
		}
		ks = append(ks, avx2)
	}
	return append(ks, portable)
}

//go:noescape
func tileAVX2(k int, a *float32, rs, cs int, b *float32, bs int, c *float32, ldc int, load bool)

//go:noescape
func tileAVX512(k int, a *float32, rs, cs int, b *float32, bs int, c *float32, ldc int, load bool)

//go:noescape
func transposeAVX2(blocks int, dst *float32, ldd int, src *float32, lds int)

//go:noescape
func dotsAVX2(k int, w *float32, ldw int, x, out *float32)

//go:noescape
func copy6AVX2(k int, dst *float32, ldd int, src *float32, lds int)

//go:noescape
func copy16AVX2(k int, dst *float32, ldd int, src *float32, lds int)
