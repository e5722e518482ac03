package kernels

// Device runs ops on one processor's memory. Ops enqueue work in call order and do not return errors: the first
// failure (with the op's name and shapes) is kept and returned by Sync, after which further ops do nothing.
// A shape that contradicts an op's contract is a bug of the caller and panics. A Device is used by one goroutine.
//
// The model code is written against this interface alone. Ref is the plain-Go statement of every op;
// each other device is tested against it.
type Device interface {
	// Name says which implementation runs and what its matrix product uses, such as "cpu/avx2".
	Name() string
	// Half is the device's half type, in which it keeps activations, the weights of products and captures: OpList says which
	// operands. It is BFloat16, or Float32 on a host device and on a GPU that was opened for float32.
	Half() Type
	// Alloc returns a zeroed rows×cols tensor of Float32, AllocHalf one of the half type. They live until Close, or until
	// Free, which takes what Alloc or AllocHalf returned, after the work before it.
	Alloc(rows, cols int) Tensor
	AllocHalf(rows, cols int) Tensor
	Free(t Tensor)
	// Index uploads v; the result is valid until the second Sync after it on a device that copies, so build it per call.
	Index(v []int32) Index
	// Upload copies src to dst, Download copies src to dst after the work before it has finished. To a tensor of BFloat16
	// values are rounded to the nearest, ties to even.
	Upload(dst Tensor, src []float32)
	Download(dst []float32, src Tensor)
	// UploadBytes copies elements of dst's own type as they lie in memory or in a mapped file, little-endian.
	UploadBytes(dst Tensor, src []byte)
	// Sync waits for the enqueued work and returns the first failure.
	Sync() error
	Close() error

	Mover
	Linear
	Normaliser
	Attention
	Loss
	Optimizer
}

// Mover moves and combines rows.
type Mover interface {
	// Zero: t = 0.
	Zero(t Tensor)
	// Copy: dst = src; equal shapes. It converts where the types differ.
	Copy(dst, src Tensor)
	// CopyCols: dst[:, at:at+src.Cols] = src.
	CopyCols(dst Tensor, at int, src Tensor)
	// Add: dst += src.
	Add(dst, src Tensor)
	// Scale: t *= s.
	Scale(t Tensor, s float32)
	// ScaleRows: t[i] *= s[i]; s [R, 1].
	ScaleRows(t, s Tensor)
	// Gather: out[i] = table[rows[i]]; out [n, C], table [R, C].
	Gather(out, table Tensor, rows Index)
	// Scatter: out[rows[i]] = x[i]; rows are distinct; other rows of out keep their values.
	Scatter(out, x Tensor, rows Index)
}

// Linear is the matrix product.
type Linear interface {
	// Gemm: c = op(a)·op(b) + beta·c, op(x) = xᵀ where the flag is set. beta is 0 or 1; with 0, c is not read.
	// c [M, N], op(a) [M, K], op(b) [K, N]. A linear layer y = x·Wᵀ is Gemm(y, x, W, false, true, 0).
	Gemm(c, a, b Tensor, ta, tb bool, beta float32)
	// SwiGLU: out = silu(gate)·up, all [T, I]; out may be gate.
	SwiGLU(out, gate, up Tensor)
	// SwiGLUBackward: dgate = dout·up·silu'(gate), dup = dout·silu(gate).
	SwiGLUBackward(dgate, dup, dout, gate, up Tensor)
	// AddBias: x[t] += b for every row t; b [1, C].
	AddBias(x, b Tensor)
}

// Normaliser is RMS normalisation (Zhang and Sennrich, 2019) and rotary embedding (Su et al., 2021).
type Normaliser interface {
	// RMSNorm: out = w·x·r, r = (mean(x²)+eps)^-½ per row; x, out [T, C], w [1, C]. rstd [T, 1] receives r unless nil.
	RMSNorm(out, x, w, rstd Tensor, eps float32)
	// RMSNormBackward: dx += ∂L/∂x (= when accumulate is false), dw += ∂L/∂w. dx may be nil: dw only.
	RMSNormBackward(dx, dw, dout, x, w, rstd Tensor, accumulate bool)
	// HeadNormRope: per head h of x [T, heads·dim], out = rope(RMSNorm(x_h, w), pos); w [1, dim], or nil for no norm.
	// rstd [T, heads] receives the norm's r unless nil. out may be x when rstd is nil.
	HeadNormRope(out, x, w, rstd Tensor, heads int, pos Index, rope Rope, eps float32)
	// HeadNormRopeBackward: dx = ∂L/∂x, dw += ∂L/∂w; x is the input of the forward call.
	HeadNormRopeBackward(dx, dw, dout, x, w, rstd Tensor, heads int, pos Index, rope Rope)
}

// Attention covers the target's causal attention and the drafter's block attention. No mask is ever materialised.
type Attention interface {
	// CausalAttention: o = softmax(scale·q·kᵀ)·v within each segment; query i sees keys up to its own, and with
	// Window W only the last W of those. q, o [Tq, Q·Dim]; k, v [Tk, KV·Dim].
	CausalAttention(o, q, k, v Tensor, segs []Segment, h Heads)
	// BlockAttention: slot s of block n sees context rows [Start, Anchor) and all slots of block n. With Window W a
	// context row c (numbered like Anchor) is seen only if c ≥ Anchor+s-(W-1), and slot j of the block only if j ≤ s.
	// q, o [N·B, Q·Dim]; kc, vc [S, KV·Dim] (context); kb, vb [N·B, KV·Dim] (block); lse [N·B, Q] receives
	// log Σ exp(score) for the backward call. Blocks are sorted by Anchor.
	BlockAttention(o, lse, q, kc, vc, kb, vb Tensor, blocks []Block, blockSize int, h Heads)
	// BlockAttentionBackward: dq, dkb, dvb = and dkc, dvc = the gradients (rows that no block sees become 0).
	BlockAttentionBackward(dq, dkc, dvc, dkb, dvb, do, o, lse, q, kc, vc, kb, vb Tensor, blocks []Block, blockSize int, h Heads)
}

// Loss is the vocabulary projection fused with cross-entropy; logits never stand whole.
type Loss interface {
	// HeadLoss: z = h·headᵀ row by row; ce[i] = logsumexp(z_i) - z_i[label_i]; hit[i] = 1 if label_i is the first
	// maximum of z_i, else 0. With dh not nil, dh_i = weight_i·(softmax(z_i) - onehot(label_i))·head.
	// h, dh [R, H]; head [V, H]; ce, hit [R, 1] (hit may be nil); weight [R, 1].
	HeadLoss(ce, hit, dh, h, head, weight Tensor, labels Index)
	// Argmax returns, for each row of h [R, H], the first maximum of h_i·headᵀ. It waits for the result.
	Argmax(h, head Tensor) []int32
}

// Optimizer is what a step needs once the gradients are summed.
type Optimizer interface {
	// SumSquares returns Σ t². It waits for the result. The order of summation does not depend on the number of threads.
	SumSquares(t Tensor) float64
	// AdamW updates w, m and v in place from g; half, unless it is nil, receives w.
	AdamW(w, half, m, v, g Tensor, a Adam)
	// CheckFeatures tests x and sums it (CheckSum and CheckSumBF16 state the sum). It waits for the result.
	CheckFeatures(x Tensor) FeatureCheck
}
