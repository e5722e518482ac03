#include "textflag.h"

// Y0..Y11 hold one row of out each; Y12 is a row of x; Y13..Y15 elements of w.
#define STEP4(P, C0, C1, C2, C3) \
	VBROADCASTSS (P), Y13        \
	VBROADCASTSS (P)(R8*1), Y14  \
	VBROADCASTSS (P)(R8*2), Y15  \
	VFMADD231PS  Y12, Y13, C0    \
	VBROADCASTSS (P)(R9*1), Y13  \
	VFMADD231PS  Y12, Y14, C1    \
	VFMADD231PS  Y12, Y15, C2    \
	VFMADD231PS  Y12, Y13, C3    \
	ADDQ         $4, P

// func dotsAVX2(k int, w *float32, ldw int, x, out *float32)
//
// out [12, 8] += w [12, k] · x [k, 8], p ascending, one fused multiply-add each; x and out are dense, w has stride ldw.
TEXT ·dotsAVX2(SB), NOSPLIT, $0-40
	MOVQ k+0(FP), CX
	MOVQ w+8(FP), SI
	MOVQ ldw+16(FP), R8
	MOVQ x+24(FP), DI
	MOVQ out+32(FP), DX
	SHLQ $2, R8
	LEAQ (R8)(R8*2), R9
	LEAQ (SI)(R8*4), R10
	LEAQ (SI)(R8*8), R11
	VMOVUPS (DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS 64(DX), Y2
	VMOVUPS 96(DX), Y3
	VMOVUPS 128(DX), Y4
	VMOVUPS 160(DX), Y5
	VMOVUPS 192(DX), Y6
	VMOVUPS 224(DX), Y7
	VMOVUPS 256(DX), Y8
	VMOVUPS 288(DX), Y9
	VMOVUPS 320(DX), Y10
	VMOVUPS 352(DX), Y11

loop:
	VMOVUPS (DI), Y12
	STEP4(SI, Y0, Y1, Y2, Y3)
	STEP4(R10, Y4, Y5, Y6, Y7)
	STEP4(R11, Y8, Y9, Y10, Y11)
	ADDQ $32, DI
	DECQ CX
	JNZ  loop
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, 32(DX)
	VMOVUPS Y2, 64(DX)
	VMOVUPS Y3, 96(DX)
	VMOVUPS Y4, 128(DX)
	VMOVUPS Y5, 160(DX)
	VMOVUPS Y6, 192(DX)
	VMOVUPS Y7, 224(DX)
	VMOVUPS Y8, 256(DX)
	VMOVUPS Y9, 288(DX)
	VMOVUPS Y10, 320(DX)
	VMOVUPS Y11, 352(DX)
	VZEROUPPER
	RET
