// Package kernels is the arithmetic of the pipeline: a short list of ops over dense matrices, behind one interface.
//
// Device is that interface; Ref states every op in plain Go and is always compiled; package cpu is the fast host device.
// kernelstest.Conformance compares any device with Ref. OpList below is the table of ops.
//
// Conventions. A Tensor is row-major; its shape is written [rows, columns]. T counts tokens, C columns, S context rows,
// N blocks, B slots of a block, H the hidden size, I the intermediate size, V the vocabulary. Gradients written with "="
// are set, those with "+=" are added to. Passing a nil tensor leaves an optional operand out.
package kernels

// Op is a line of the table: an op's name, its operands, those of them that are of the device's half type ("all": any type,
// and one for all; the others are Float32), and the largest max|a-b| / max|b| by which a device may differ from Ref on an
// output of Float32, and on one that is Rounded to BFloat16 from the same inputs. 0 means bit by bit.
type Op struct {
	Name      string
	Operands  string
	Half      string
	Tolerance float64
	Rounded   float64
}

// One rounding to bfloat16 changes a value by up to 2⁻⁹ of itself. A product may be rounded before it is added. Attention and
// the loss round their probabilities too, and gradients are differences of rounded values.
const (
	once   = 1.0 / 256
	thrice = 1.0 / 64
)

// OpList is every op of Device, in the order of the interface.
var OpList = []Op{
	{"Zero", "t [R, C] =", "all", 0, 0},
	{"Copy", "dst [R, C] =, src [R, C]", "either", 0, 0},
	{"CopyCols", "dst [R, C] columns at.. =, src [R, c]", "all", 0, 0},
	{"Add", "dst [R, C] +=, src [R, C]", "all", 0, once},
	{"Scale", "t [R, C], s", "all", 0, once},
	{"ScaleRows", "t [R, C], s [R, 1]", "t", 0, once},
	{"Gather", "out [n, C] =, table [R, C], rows n", "all", 0, 0},
	{"Scatter", "out [R, C] rows =, x [n, C], rows n", "all", 0, 0},

	{"Gemm", "c [M, N] = or +=, op(a) [M, K], op(b) [K, N]", "a, b, and c where wanted", 1e-5, 2 * once},
	{"SwiGLU", "out [T, I] =, gate, up [T, I]", "all", 1e-6, once},
	{"SwiGLUBackward", "dgate, dup [T, I] =, dout, gate, up [T, I]", "all", 1e-6, once},
	{"AddBias", "x [T, C] +=, b [1, C]", "x", 0, once},

	{"RMSNorm", "out [T, C] =, x [T, C], w [1, C], rstd [T, 1] =", "out, x", 2e-6, once},
	{"RMSNormBackward", "dx [T, C] = or +=, dw [1, C] +=, dout, x [T, C], w [1, C], rstd [T, 1]", "dx, dout, x", 1e-5, once},
	{"HeadNormRope", "out [T, heads·dim] =, x, w [1, dim], rstd [T, heads] =, pos T", "out, x", 2e-6, once},
	{"HeadNormRopeBackward", "dx [T, heads·dim] =, dw [1, dim] +=, dout, x, w, rstd [T, heads], pos T", "dx, dout, x", 1e-5, once},

	{"CausalAttention", "o [Tq, Q·dim] =, q, k, v [Tk, KV·dim]", "all", 1e-5, thrice},
	{"BlockAttention", "o [N·B, Q·dim] =, lse [N·B, Q] =, q, kc, vc [S, KV·dim], kb, vb [N·B, KV·dim]", "all but lse", 1e-5, thrice},
	{"BlockAttentionBackward", "dq, dkc, dvc, dkb, dvb =, do, o, lse, q, kc, vc, kb, vb", "all but lse", 2e-5, thrice},

	{"HeadLoss", "ce, hit [R, 1] =, dh [R, H] =, h [R, H], head [V, H], weight [R, 1], labels R", "dh, h, head", 1e-5, thrice},
	{"Argmax", "h [R, H], head [V, H]", "all", 0, 0},

	{"SumSquares", "t [R, C]", "", 1e-6, 0},
	{"AdamW", "w, m, v [R, C] updated, half [R, C] =, g [R, C]", "half", 1e-6, once},
	{"CheckFeatures", "x [T, C]", "x", 0, 0},
}
