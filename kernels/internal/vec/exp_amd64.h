// e^x for eight floats: x = n·ln 2 + r, n the nearest whole number; e^r by a polynomial of degree 6, minimax in relative
// error on |r| ≤ ln 2 / 2; 2ⁿ by its exponent bits. At most 1 unit in the last place off. Below -87.3365, where the
// result would be denormal, it is 0; above 88.3762 it stays at e^88.3762; NaN gives NaN.

// ln 2, its leading 12 bits ...
DATA expHi<>+0(SB)/8, $0x3f3170003f317000
DATA expHi<>+8(SB)/8, $0x3f3170003f317000
DATA expHi<>+16(SB)/8, $0x3f3170003f317000
DATA expHi<>+24(SB)/8, $0x3f3170003f317000
GLOBL expHi<>(SB), RODATA|NOPTR, $32
// ... and the rest
DATA expLo<>+0(SB)/8, $0x3805fdf43805fdf4
DATA expLo<>+8(SB)/8, $0x3805fdf43805fdf4
DATA expLo<>+16(SB)/8, $0x3805fdf43805fdf4
DATA expLo<>+24(SB)/8, $0x3805fdf43805fdf4
GLOBL expLo<>(SB), RODATA|NOPTR, $32
// the polynomial 1 + r + c2·r² + … + c6·r⁶
DATA expC6<>+0(SB)/8, $0x3ab511e83ab511e8
DATA expC6<>+8(SB)/8, $0x3ab511e83ab511e8
DATA expC6<>+16(SB)/8, $0x3ab511e83ab511e8
DATA expC6<>+24(SB)/8, $0x3ab511e83ab511e8
GLOBL expC6<>(SB), RODATA|NOPTR, $32
DATA expC5<>+0(SB)/8, $0x3c091d103c091d10
DATA expC5<>+8(SB)/8, $0x3c091d103c091d10
DATA expC5<>+16(SB)/8, $0x3c091d103c091d10
DATA expC5<>+24(SB)/8, $0x3c091d103c091d10
GLOBL expC5<>(SB), RODATA|NOPTR, $32
DATA expC4<>+0(SB)/8, $0x3d2aac793d2aac79
DATA expC4<>+8(SB)/8, $0x3d2aac793d2aac79
DATA expC4<>+16(SB)/8, $0x3d2aac793d2aac79
DATA expC4<>+24(SB)/8, $0x3d2aac793d2aac79
GLOBL expC4<>(SB), RODATA|NOPTR, $32
DATA expC3<>+0(SB)/8, $0x3e2aaa493e2aaa49
DATA expC3<>+8(SB)/8, $0x3e2aaa493e2aaa49
DATA expC3<>+16(SB)/8, $0x3e2aaa493e2aaa49
DATA expC3<>+24(SB)/8, $0x3e2aaa493e2aaa49
GLOBL expC3<>(SB), RODATA|NOPTR, $32
DATA expC2<>+0(SB)/8, $0x3efffffe3efffffe
DATA expC2<>+8(SB)/8, $0x3efffffe3efffffe
DATA expC2<>+16(SB)/8, $0x3efffffe3efffffe
DATA expC2<>+24(SB)/8, $0x3efffffe3efffffe
GLOBL expC2<>(SB), RODATA|NOPTR, $32

// EXP_CONSTANTS loads what EXP keeps in Y11..Y15; AX is overwritten.
#define BROADCAST(BITS, X, Y) \
	MOVL         BITS, AX \
	VMOVD        AX, X    \
	VBROADCASTSS X, Y

#define EXP_CONSTANTS \
	BROADCAST($0xc2aeac4a, X15, Y15) /* -87.3365 */ \
	BROADCAST($0x42b0c09d, X14, Y14) /* 88.3762 */  \
	BROADCAST($0x3fb8aa3b, X13, Y13) /* 1 / ln 2 */ \
	BROADCAST($0x4b400000, X12, Y12) /* 1.5·2²³: adding it rounds to a whole number, in the low bits */ \
	BROADCAST($0x3f800000, X11, Y11) /* 1 */

// EXP: Y0 = e^Y0; Y1, Y2 and Y3 are overwritten.
#define EXP \
	VCMPPS       $0x15, Y15, Y0, Y3     /* not less, so true for NaN */ \
	VMAXPS       Y0, Y15, Y0            \
	VMINPS       Y0, Y14, Y0            \
	VMOVAPS      Y13, Y1                \
	VFMADD213PS  Y12, Y0, Y1            \
	VSUBPS       Y12, Y1, Y2            \
	VFNMADD231PS expHi<>(SB), Y2, Y0    \
	VFNMADD231PS expLo<>(SB), Y2, Y0    \
	VMOVUPS      expC6<>(SB), Y2        \
	VFMADD213PS  expC5<>(SB), Y0, Y2    \
	VFMADD213PS  expC4<>(SB), Y0, Y2    \
	VFMADD213PS  expC3<>(SB), Y0, Y2    \
	VFMADD213PS  expC2<>(SB), Y0, Y2    \
	VFMADD213PS  Y11, Y0, Y2            \
	VFMADD213PS  Y11, Y0, Y2            \
	VPSLLD       $23, Y1, Y1            \
	VPADDD       Y11, Y1, Y1            \
	VMULPS       Y1, Y2, Y0             \
	VANDPS       Y3, Y0, Y0
