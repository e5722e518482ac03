#include "textflag.h"

// func addAVX2(n int, dst, src *float32)
TEXT ·addAVX2(SB), NOSPLIT, $0-24
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ src+16(FP), SI

loop:
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VADDPS  (SI), Y0, Y0
	VADDPS  32(SI), Y1, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNZ     loop
	VZEROUPPER
	RET

// func scaleAVX2(n int, dst, x *float32, s float32)
TEXT ·scaleAVX2(SB), NOSPLIT, $0-28
	MOVQ n+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ x+16(FP), SI
	VBROADCASTSS s+24(FP), Y2

loop:
	VMULPS  (SI), Y2, Y0
	VMULPS  32(SI), Y2, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNZ     loop
	VZEROUPPER
	RET

// func scaledDifferenceAVX2(n int, x, p *float32, delta float32)
TEXT ·scaledDifferenceAVX2(SB), NOSPLIT, $0-28
	MOVQ n+0(FP), CX
	MOVQ x+8(FP), DI
	MOVQ p+16(FP), SI
	VBROADCASTSS delta+24(FP), Y2

loop:
	VMOVUPS (DI), Y0
	VMOVUPS 32(DI), Y1
	VSUBPS  Y2, Y0, Y0
	VSUBPS  Y2, Y1, Y1
	VMULPS  (SI), Y0, Y0
	VMULPS  32(SI), Y1, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    $64, SI
	ADDQ    $64, DI
	SUBQ    $16, CX
	JNZ     loop
	VZEROUPPER
	RET

// func ropeAVX2(n int, lo, hi, x, y, cos, sin *float32)
TEXT ·ropeAVX2(SB), NOSPLIT, $0-56
	MOVQ n+0(FP), CX
	MOVQ lo+8(FP), DI
	MOVQ hi+16(FP), R8
	MOVQ x+24(FP), SI
	MOVQ y+32(FP), DX
	MOVQ cos+40(FP), R9
	MOVQ sin+48(FP), R10

loop:
	VMOVUPS (SI), Y0
	VMOVUPS (DX), Y1
	VMOVUPS (R9), Y2
	VMOVUPS (R10), Y3
	VMULPS  Y3, Y1, Y4
	VMULPS  Y3, Y0, Y5
	VFMSUB213PS Y4, Y2, Y0
	VFMADD213PS Y5, Y2, Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, (R8)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, R9
	ADDQ    $32, R10
	ADDQ    $32, DI
	ADDQ    $32, R8
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET
