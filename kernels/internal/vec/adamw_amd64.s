#include "textflag.h"
#include "go_asm.h"

// func adamwAVX2(n int, w, m, v, grad *float32, a *Adam)
//
// The order of operations is that of adamwGo, without fused ones, so both give the same bits.
TEXT ·adamwAVX2(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ w+8(FP), DI
	MOVQ m+16(FP), SI
	MOVQ v+24(FP), DX
	MOVQ grad+32(FP), R8
	MOVQ a+40(FP), R9
	VBROADCASTSS Adam_GradScale(R9), Y8
	VBROADCASTSS Adam_Rate1(R9), Y9
	VBROADCASTSS Adam_Beta2(R9), Y10
	VBROADCASTSS Adam_Rate2(R9), Y11
	VBROADCASTSS Adam_Root(R9), Y12
	VBROADCASTSS Adam_Eps(R9), Y13
	VBROADCASTSS Adam_Keep(R9), Y14
	VBROADCASTSS Adam_Step(R9), Y15

loop:
	VMULPS  (R8), Y8, Y0        // g'
	VMOVUPS (SI), Y1
	VSUBPS  Y1, Y0, Y2
	VMULPS  Y9, Y2, Y2
	VADDPS  Y2, Y1, Y1          // m
	VMOVUPS Y1, (SI)
	VMULPS  (DX), Y10, Y2
	VMULPS  Y11, Y0, Y3
	VMULPS  Y0, Y3, Y3
	VADDPS  Y3, Y2, Y2          // v
	VMOVUPS Y2, (DX)
	VSQRTPS Y2, Y2
	VMULPS  Y12, Y2, Y2
	VADDPS  Y13, Y2, Y2
	VDIVPS  Y2, Y1, Y1
	VMULPS  Y15, Y1, Y1
	VMULPS  (DI), Y14, Y0
	VSUBPS  Y1, Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, R8
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET
