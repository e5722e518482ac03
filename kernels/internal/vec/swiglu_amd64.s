#include "textflag.h"
#include "exp_amd64.h"

// SIGMOID: Y0 = 1/(1+e^-Y0); Y1, Y2, Y3 and Y10, which holds the sign bit, as for EXP.
#define SIGMOID \
	VXORPS Y10, Y0, Y0 \
	EXP                \
	VADDPS Y11, Y0, Y0 \
	VDIVPS Y0, Y11, Y0

// func swigluAVX2(n int, out, gate, up *float32)
TEXT ·swigluAVX2(SB), NOSPLIT, $0-32
	MOVQ n+0(FP), CX
	MOVQ out+8(FP), DI
	MOVQ gate+16(FP), SI
	MOVQ up+24(FP), DX
	EXP_CONSTANTS
	BROADCAST($0x80000000, X10, Y10)

loop:
	VMOVUPS (SI), Y0
	SIGMOID
	VMULPS  (SI), Y0, Y0
	VMULPS  (DX), Y0, Y0
	VMOVUPS Y0, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET

// func swigluBackwardAVX2(n int, dgate, dup, dout, gate, up *float32)
TEXT ·swigluBackwardAVX2(SB), NOSPLIT, $0-48
	MOVQ n+0(FP), CX
	MOVQ dgate+8(FP), DI
	MOVQ dup+16(FP), R8
	MOVQ dout+24(FP), R9
	MOVQ gate+32(FP), SI
	MOVQ up+40(FP), DX
	EXP_CONSTANTS
	BROADCAST($0x80000000, X10, Y10)

loop:
	VMOVUPS (SI), Y0
	VMOVAPS Y0, Y4
	SIGMOID
	VMOVUPS (R9), Y5
	VMULPS  Y0, Y4, Y6          // x·σ
	VMULPS  Y6, Y5, Y7
	VMULPS  (DX), Y5, Y5
	VMOVUPS Y7, (R8)
	VSUBPS  Y0, Y11, Y1         // 1-σ
	VFMADD213PS Y0, Y6, Y1      // σ + x·σ·(1-σ)
	VMULPS  Y1, Y5, Y5
	VMOVUPS Y5, (DI)
	ADDQ    $32, SI
	ADDQ    $32, DX
	ADDQ    $32, DI
	ADDQ    $32, R8
	ADDQ    $32, R9
	SUBQ    $8, CX
	JNZ     loop
	VZEROUPPER
	RET
