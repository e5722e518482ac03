#include "textflag.h"

// c [6, 16] = (load: c, else 0) + Σ_p a[·, p]·b[p, ·], p ascending, one fused multiply-add each.
// Y0..Y11 hold c, two to a row; Y12, Y13 a row of b; Y14, Y15 elements of a.

#define STEP2(A0, A1, C0, C1, C2, C3) \
	VBROADCASTSS A0, Y14       \
	VBROADCASTSS A1, Y15       \
	VFMADD231PS  Y12, Y14, C0  \
	VFMADD231PS  Y13, Y14, C1  \
	VFMADD231PS  Y12, Y15, C2  \
	VFMADD231PS  Y13, Y15, C3

#define STEP(B0, B1) \
	VMOVUPS B0, Y12                                        \
	VMOVUPS B1, Y13                                        \
	STEP2((SI), (SI)(R8*1), Y0, Y1, Y2, Y3)                \
	STEP2((SI)(R8*2), (R11), Y4, Y5, Y6, Y7)               \
	STEP2((R11)(R8*1), (R11)(R8*2), Y8, Y9, Y10, Y11)      \
	ADDQ    R9, SI                                         \
	ADDQ    R9, R11

// func tileAVX2(k int, a *float32, rs, cs int, b *float32, bs int, c *float32, ldc int, load bool)
TEXT ·tileAVX2(SB), NOSPLIT, $0-65
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), SI
	MOVQ rs+16(FP), R8
	MOVQ cs+24(FP), R9
	MOVQ b+32(FP), DI
	MOVQ bs+40(FP), R13
	MOVQ c+48(FP), DX
	MOVQ ldc+56(FP), R10
	SHLQ $2, R8
	SHLQ $2, R13
	SHLQ $2, R9
	SHLQ $2, R10
	LEAQ (SI)(R8*2), R11
	ADDQ R8, R11
	LEAQ (DX)(R10*2), R12
	ADDQ R10, R12
	CMPB load+64(FP), $0
	JEQ  zero
	VMOVUPS (DX), Y0
	VMOVUPS 32(DX), Y1
	VMOVUPS (DX)(R10*1), Y2
	VMOVUPS 32(DX)(R10*1), Y3
	VMOVUPS (DX)(R10*2), Y4
	VMOVUPS 32(DX)(R10*2), Y5
	VMOVUPS (R12), Y6
	VMOVUPS 32(R12), Y7
	VMOVUPS (R12)(R10*1), Y8
	VMOVUPS 32(R12)(R10*1), Y9
	VMOVUPS (R12)(R10*2), Y10
	VMOVUPS 32(R12)(R10*2), Y11
	JMP  pairs

zero:
	PREFETCHT0 (DX)
	PREFETCHT0 (DX)(R10*1)
	PREFETCHT0 (DX)(R10*2)
	PREFETCHT0 (R12)
	PREFETCHT0 (R12)(R10*1)
	PREFETCHT0 (R12)(R10*2)
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	VXORPS Y4, Y4, Y4
	VXORPS Y5, Y5, Y5
	VXORPS Y6, Y6, Y6
	VXORPS Y7, Y7, Y7
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11

pairs:
	SUBQ $2, CX
	JLT  last

loop:
	STEP((DI), 32(DI))
	STEP((DI)(R13*1), 32(DI)(R13*1))
	LEAQ (DI)(R13*2), DI
	SUBQ $2, CX
	JGE  loop

last:
	ADDQ $2, CX
	JLE  store
	STEP((DI), 32(DI))

store:
	VMOVUPS Y0, (DX)
	VMOVUPS Y1, 32(DX)
	VMOVUPS Y2, (DX)(R10*1)
	VMOVUPS Y3, 32(DX)(R10*1)
	VMOVUPS Y4, (DX)(R10*2)
	VMOVUPS Y5, 32(DX)(R10*2)
	VMOVUPS Y6, (R12)
	VMOVUPS Y7, 32(R12)
	VMOVUPS Y8, (R12)(R10*1)
	VMOVUPS Y9, 32(R12)(R10*1)
	VMOVUPS Y10, (R12)(R10*2)
	VMOVUPS Y11, 32(R12)(R10*2)
	VZEROUPPER
	RET
