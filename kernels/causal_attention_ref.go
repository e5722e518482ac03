package kernels

import "fmt"

// CheckCausalAttention panics unless q, o are [Tq, Q·Dim], k, v [Tk, KV·Dim], Q is a multiple of KV, and
// every segment lies within them with at least as many keys as queries.
func CheckCausalAttention(o, q, k, v Tensor, segs []Segment, h Heads) {
	const op = "CausalAttention"
	checkHeads(op, h)
	Want(op, "q", q, q.Rows, h.Q*h.Dim)
	Want(op, "o", o, q.Rows, q.Cols)
	Want(op, "k", k, k.Rows, h.KV*h.Dim)
	Want(op, "v", v, k.Rows, k.Cols)
	for _, s := range segs {
		if s.Q0 < 0 || s.Q1 < s.Q0 || int(s.Q1) > q.Rows || s.K0 < 0 || int(s.K1) > k.Rows || s.K1-s.K0 < s.Q1-s.Q0 {
			panic(fmt.Sprintf("kernels: %s: segment %+v over %d queries and %d keys", op, s, q.Rows, k.Rows))
		}
	}
}

func checkHeads(op string, h Heads) {
	if h.KV <= 0 || h.Q%h.KV != 0 {
		panic(fmt.Sprintf("kernels: %s: %d query heads over %d key heads", op, h.Q, h.KV))
	}
}

// CausalAttention: query row i of a segment stands at key row K1-(Q1-i) and sees the keys from K0, or the last
// Window of them, up to that row. Rows outside every segment are not written.
func (*Ref) CausalAttention(o, q, k, v Tensor, segs []Segment, h Heads) {
	CheckCausalAttention(o, q, k, v, segs, h)
	var at attention
	for _, s := range segs {
		for i := int(s.Q0); i < int(s.Q1); i++ {
			hi := int(s.K1) - (int(s.Q1) - i) + 1
			lo := int(s.K0)
			if h.Window > 0 {
				lo = max(lo, hi-h.Window)
			}
			for head := range h.Q {
				at.reset(part(q, i, head, h), h)
				at.keys(k, lo, hi, head)
				at.softmax()
				at.write(part(o, i, head, h), head, span{v, lo, hi})
			}
		}
	}
}
