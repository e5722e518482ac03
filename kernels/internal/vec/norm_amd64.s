#include "textflag.h"

// func normAVX2(n int, out, x, w *float32, r float32)
TEXT ·normAVX2(SB), NOSPLIT, $0-36
	MOVQ n+0(FP), CX
	MOVQ out+8(FP), DI
	MOVQ x+16(FP), SI
	MOVQ w+24(FP), DX
	VBROADCASTSS r+32(FP), Y2

loop:
	VMULPS  (SI), Y2, Y0
	VMULPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func normInputGradAVX2(n int, dx, dout, x, w *float32, r, m float32, add bool)
TEXT ·normInputGradAVX2(SB), NOSPLIT, $0-49
	MOVQ n+0(FP), CX
	MOVQ dx+8(FP), DI
	MOVQ dout+16(FP), R8
	MOVQ x+24(FP), SI
	MOVQ w+32(FP), DX
	VBROADCASTSS r+40(FP), Y2
	VBROADCASTSS m+44(FP), Y3
	CMPB add+48(FP), $0
	JNE  sum

loop:
	VMOVUPS (R8), Y0
	VMULPS  (DX), Y0, Y0
	VFNMADD231PS (SI), Y3, Y0
	VMULPS  Y2, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	ADDQ    $32, R8
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

sum:
	VMOVUPS (R8), Y0
	VMULPS  (DX), Y0, Y0
	VFNMADD231PS (SI), Y3, Y0
	VMULPS  Y2, Y0, Y0
	VADDPS  (DI), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	ADDQ    $32, R8
	SUBQ    $8, CX
	JNZ     sum
	VZEROUPPER
	RET

// func normWeightGradAVX2(n int, dw, dout, x *float32, r float32)
TEXT ·normWeightGradAVX2(SB), NOSPLIT, $0-36
	MOVQ n+0(FP), CX
	MOVQ dw+8(FP), DI
	MOVQ dout+16(FP), DX
	MOVQ x+24(FP), SI
	VBROADCASTSS r+32(FP), Y2

loop:
	VMULPS  (SI), Y2, Y0
	VMOVUPS (DI), Y1
	VFMADD231PS (DX), Y0, Y1
	VMOVUPS Y1, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET
