#include "textflag.h"

// c [12, 32] = (load: c, else 0) + Σ_p a[·, p]·b[p, ·], p ascending, one fused multiply-add each.
// Z0..Z23 hold c, two to a row; Z24, Z25 a row of b; Z26..Z29 elements of a.

// STEP4 does four rows whose elements of a start at P.
#define STEP4(P, C0, C1, C2, C3, C4, C5, C6, C7) \
	VBROADCASTSS (P), Z26        \
	VBROADCASTSS (P)(R8*1), Z27  \
	VBROADCASTSS (P)(R8*2), Z28  \
	VBROADCASTSS (P)(R13*1), Z29 \
	VFMADD231PS  Z24, Z26, C0    \
	VFMADD231PS  Z25, Z26, C1    \
	VFMADD231PS  Z24, Z27, C2    \
	VFMADD231PS  Z25, Z27, C3    \
	VFMADD231PS  Z24, Z28, C4    \
	VFMADD231PS  Z25, Z28, C5    \
	VFMADD231PS  Z24, Z29, C6    \
	VFMADD231PS  Z25, Z29, C7    \
	ADDQ         R9, P

#define STEP(B0, B1) \
	VMOVUPS B0, Z24                                        \
	VMOVUPS B1, Z25                                        \
	STEP4(SI, Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7)              \
	STEP4(R11, Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)       \
	STEP4(R12, Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)

// LOAD4, STORE4 and TOUCH4 move or fetch four rows of c; AX, its first row, R10 and BX, once and three times its stride.
#define LOAD4(C0, C1, C2, C3, C4, C5, C6, C7) \
	VMOVUPS (AX), C0            \
	VMOVUPS 64(AX), C1          \
	VMOVUPS (AX)(R10*1), C2     \
	VMOVUPS 64(AX)(R10*1), C3   \
	VMOVUPS (AX)(R10*2), C4     \
	VMOVUPS 64(AX)(R10*2), C5   \
	VMOVUPS (AX)(BX*1), C6      \
	VMOVUPS 64(AX)(BX*1), C7    \
	LEAQ    (AX)(R10*4), AX

#define STORE4(C0, C1, C2, C3, C4, C5, C6, C7) \
	VMOVUPS C0, (AX)            \
	VMOVUPS C1, 64(AX)          \
	VMOVUPS C2, (AX)(R10*1)     \
	VMOVUPS C3, 64(AX)(R10*1)   \
	VMOVUPS C4, (AX)(R10*2)     \
	VMOVUPS C5, 64(AX)(R10*2)   \
	VMOVUPS C6, (AX)(BX*1)      \
	VMOVUPS C7, 64(AX)(BX*1)    \
	LEAQ    (AX)(R10*4), AX

#define TOUCH4 \
	PREFETCHT0 (AX)             \
	PREFETCHT0 64(AX)           \
	PREFETCHT0 (AX)(R10*1)      \
	PREFETCHT0 64(AX)(R10*1)    \
	PREFETCHT0 (AX)(R10*2)      \
	PREFETCHT0 64(AX)(R10*2)    \
	PREFETCHT0 (AX)(BX*1)       \
	PREFETCHT0 64(AX)(BX*1)     \
	LEAQ       (AX)(R10*4), AX

#define ZERO4(C0, C1, C2, C3) \
	VPXORD C0, C0, C0 \
	VPXORD C1, C1, C1 \
	VPXORD C2, C2, C2 \
	VPXORD C3, C3, C3

// func tileAVX512(k int, a *float32, rs, cs int, b *float32, bs int, c *float32, ldc int, load bool)
TEXT ·tileAVX512(SB), NOSPLIT, $0-65
	MOVQ k+0(FP), CX
	MOVQ a+8(FP), SI
	MOVQ rs+16(FP), R8
	MOVQ cs+24(FP), R9
	MOVQ b+32(FP), DI
	MOVQ c+48(FP), DX
	MOVQ ldc+56(FP), R10
	SHLQ $2, R8
	SHLQ $2, R9
	SHLQ $2, R10
	LEAQ (R8)(R8*2), R13
	LEAQ (R10)(R10*2), BX
	LEAQ (SI)(R8*4), R11
	LEAQ (SI)(R8*8), R12
	MOVQ DX, AX
	CMPB load+64(FP), $0
	JEQ  zero
	LOAD4(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7)
	LOAD4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	LOAD4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	JMP  pairs

zero:
	TOUCH4
	TOUCH4
	TOUCH4
	ZERO4(Z0, Z1, Z2, Z3)
	ZERO4(Z4, Z5, Z6, Z7)
	ZERO4(Z8, Z9, Z10, Z11)
	ZERO4(Z12, Z13, Z14, Z15)
	ZERO4(Z16, Z17, Z18, Z19)
	ZERO4(Z20, Z21, Z22, Z23)

pairs:
	MOVQ bs+40(FP), AX
	SHLQ $2, AX
	SUBQ $2, CX
	JLT  last

loop:
	STEP((DI), 64(DI))
	STEP((DI)(AX*1), 64(DI)(AX*1))
	LEAQ (DI)(AX*2), DI
	SUBQ $2, CX
	JGE  loop

last:
	ADDQ $2, CX
	JLE  store
	STEP((DI), 64(DI))

store:
	MOVQ DX, AX
	STORE4(Z0, Z1, Z2, Z3, Z4, Z5, Z6, Z7)
	STORE4(Z8, Z9, Z10, Z11, Z12, Z13, Z14, Z15)
	STORE4(Z16, Z17, Z18, Z19, Z20, Z21, Z22, Z23)
	VZEROUPPER
	RET
