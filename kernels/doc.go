// Package kernels is the arithmetic of the pipeline: a short list of ops over dense matrices, behind one interface.
//
// Device is that interface; Ref states every op in plain Go and is always compiled; package cpu is the fast host device.
// kernelstest.Conformance compares any device with Ref. OpList below is the table of ops.
//
// Conventions. A Tensor is row-major; its shape is written [rows, columns]. T counts tokens, C columns, S context rows,
// N blocks, B slots of a block, H the hidden size, I the intermediate size, V the vocabulary. Gradients written with "="
// are set, those with "+=" are added to. Passing a nil tensor leaves an optional operand out.
package kernels

// Op is a line of the table: an op's name, its operands, and the largest max|a-b| / max|b| by which a float32 device may
// differ from Ref on any of its outputs. 0 means bit by bit.
type Op struct {
	Name      string
	Operands  string
	Tolerance float64
}

// OpList is every op of Device, in the order of the interface.
var OpList = []Op{
	{"Zero", "t [R, C] =", 0},
	{"Copy", "dst [R, C] =, src [R, C]", 0},
	{"CopyCols", "dst [R, C] columns at.. =, src [R, c]", 0},
	{"Add", "dst [R, C] +=, src [R, C]", 0},
	{"Scale", "t [R, C], s", 0},
	{"ScaleRows", "t [R, C], s [R, 1]", 0},
	{"Gather", "out [n, C] =, table [R, C], rows n", 0},
	{"Scatter", "out [R, C] rows =, x [n, C], rows n", 0},

	{"Gemm", "c [M, N] = or +=, op(a) [M, K], op(b) [K, N]", 1e-5},
	{"SwiGLU", "out [T, I] =, gate, up [T, I]", 1e-6},
	{"SwiGLUBackward", "dgate, dup [T, I] =, dout, gate, up [T, I]", 1e-6},
	{"AddBias", "x [T, C] +=, b [1, C]", 0},

	{"RMSNorm", "out [T, C] =, x [T, C], w [1, C], rstd [T, 1] =", 2e-6},
	{"RMSNormBackward", "dx [T, C] = or +=, dw [1, C] +=, dout, x [T, C], w [1, C], rstd [T, 1]", 1e-5},
	{"HeadNormRope", "out [T, heads·dim] =, x, w [1, dim], rstd [T, heads] =, pos T", 2e-6},
	{"HeadNormRopeBackward", "dx [T, heads·dim] =, dw [1, dim] +=, dout, x, w, rstd [T, heads], pos T", 1e-5},

	{"CausalAttention", "o [Tq, Q·dim] =, q, k, v [Tk, KV·dim]", 1e-5},
	{"BlockAttention", "o [N·B, Q·dim] =, lse [N·B, Q] =, q, kc, vc [S, KV·dim], kb, vb [N·B, KV·dim]", 1e-5},
	{"BlockAttentionBackward", "dq, dkc, dvc, dkb, dvb =, do, o, lse, q, kc, vc, kb, vb", 2e-5},

	{"HeadLoss", "ce, hit [R, 1] =, dh [R, H] =, h [R, H], head [V, H], weight [R, 1], labels R", 1e-5},
	{"Argmax", "h [R, H], head [V, H]", 0},

	{"SumSquares", "t [R, C]", 1e-6},
	{"AdamW", "w, m, v [R, C] updated, g [R, C]", 1e-6},
	{"CheckFeatures", "x [T, C]", 0},
}
