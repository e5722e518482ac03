#include "textflag.h"

// func transposeAVX2(blocks int, dst *float32, ldd int, src *float32, lds int)
//
// dst [8·blocks, 8] = srcᵀ, src [8, 8·blocks], eight columns of src at a time: pairs of rows are interleaved,
// then pairs of pairs, then the halves of the registers are put together.
TEXT ·transposeAVX2(SB), NOSPLIT, $0-40
	MOVQ blocks+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ ldd+16(FP), R8
	MOVQ src+24(FP), SI
	MOVQ lds+32(FP), R9
	SHLQ $2, R8
	SHLQ $2, R9
	LEAQ (R8)(R8*2), R12
	LEAQ (R9)(R9*2), R13

loop:
	LEAQ (SI)(R9*4), R11
	VMOVUPS (SI), Y0
	VMOVUPS (SI)(R9*1), Y1
	VMOVUPS (SI)(R9*2), Y2
	VMOVUPS (SI)(R13*1), Y3
	VMOVUPS (R11), Y4
	VMOVUPS (R11)(R9*1), Y5
	VMOVUPS (R11)(R9*2), Y6
	VMOVUPS (R11)(R13*1), Y7
	VUNPCKLPS Y1, Y0, Y8
	VUNPCKHPS Y1, Y0, Y9
	VUNPCKLPS Y3, Y2, Y10
	VUNPCKHPS Y3, Y2, Y11
	VUNPCKLPS Y5, Y4, Y12
	VUNPCKHPS Y5, Y4, Y13
	VUNPCKLPS Y7, Y6, Y14
	VUNPCKHPS Y7, Y6, Y15
	VUNPCKLPD Y10, Y8, Y0
	VUNPCKHPD Y10, Y8, Y1
	VUNPCKLPD Y11, Y9, Y2
	VUNPCKHPD Y11, Y9, Y3
	VUNPCKLPD Y14, Y12, Y4
	VUNPCKHPD Y14, Y12, Y5
	VUNPCKLPD Y15, Y13, Y6
	VUNPCKHPD Y15, Y13, Y7
	VPERM2F128 $0x20, Y4, Y0, Y8
	VPERM2F128 $0x20, Y5, Y1, Y9
	VPERM2F128 $0x20, Y6, Y2, Y10
	VPERM2F128 $0x20, Y7, Y3, Y11
	VPERM2F128 $0x31, Y4, Y0, Y12
	VPERM2F128 $0x31, Y5, Y1, Y13
	VPERM2F128 $0x31, Y6, Y2, Y14
	VPERM2F128 $0x31, Y7, Y3, Y15
	LEAQ (DI)(R8*4), R10
	VMOVUPS Y8, (DI)
	VMOVUPS Y9, (DI)(R8*1)
	VMOVUPS Y10, (DI)(R8*2)
	VMOVUPS Y11, (DI)(R12*1)
	VMOVUPS Y12, (R10)
	VMOVUPS Y13, (R10)(R8*1)
	VMOVUPS Y14, (R10)(R8*2)
	VMOVUPS Y15, (R10)(R12*1)
	ADDQ $32, SI
	LEAQ (DI)(R8*8), DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET

// func copy6AVX2(k int, dst *float32, ldd int, src *float32, lds int)
//
// dst [k, 6] = src [k, 6].
TEXT ·copy6AVX2(SB), NOSPLIT, $0-40
	MOVQ k+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ ldd+16(FP), R8
	MOVQ src+24(FP), SI
	MOVQ lds+32(FP), R9
	SHLQ $2, R8
	SHLQ $2, R9

loop:
	VMOVUPS (SI), X0
	MOVQ    16(SI), AX
	VMOVUPS X0, (DI)
	MOVQ    AX, 16(DI)
	ADDQ    R9, SI
	ADDQ    R8, DI
	DECQ    CX
	JNZ     loop
	RET

// func copy16AVX2(k int, dst *float32, ldd int, src *float32, lds int)
//
// dst [k, 16] = src [k, 16].
TEXT ·copy16AVX2(SB), NOSPLIT, $0-40
	MOVQ k+0(FP), CX
	MOVQ dst+8(FP), DI
	MOVQ ldd+16(FP), R8
	MOVQ src+24(FP), SI
	MOVQ lds+32(FP), R9
	SHLQ $2, R8
	SHLQ $2, R9

loop:
	VMOVUPS (SI), Y0
	VMOVUPS 32(SI), Y1
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, 32(DI)
	ADDQ    R9, SI
	ADDQ    R8, DI
	DECQ    CX
	JNZ     loop
	VZEROUPPER
	RET
