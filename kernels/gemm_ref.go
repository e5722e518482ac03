package kernels

import "fmt"

// CheckGemm returns m, n and k of c [m, n] = op(a) [m, k] · op(b) [k, n] and panics where they disagree.
func CheckGemm(c, a, b Tensor, ta, tb bool, beta float32) (m, n, k int) {
	m, n, k = c.Rows, c.Cols, a.Cols
	if ta {
		k = a.Rows
		Want("Gemm", "aᵀ", a, k, m)
	} else {
		Want("Gemm", "a", a, m, k)
	}
	if tb {
		Want("Gemm", "bᵀ", b, n, k)
	} else {
		Want("Gemm", "b", b, k, n)
	}
	if beta != 0 && beta != 1 {
		panic(fmt.Sprintf("kernels: Gemm: beta is %v, want 0 or 1", beta))
	}
	return m, n, k
}

// Gemm: c = op(a)·op(b) + beta·c.
func (*Ref) Gemm(c, a, b Tensor, ta, tb bool, beta float32) {
	m, n, k := CheckGemm(c, a, b, ta, tb, beta)
	ai, sum := make([]float32, k), make([]float64, n)
	for i := range m {
		for p := range k {
			if ta {
				ai[p] = a.F32[p*m+i]
			} else {
				ai[p] = a.F32[i*k+p]
			}
		}
		if tb {
			for j := range n {
				sum[j] = dot(ai, row(b, j))
			}
		} else {
			clear(sum)
			for p, v := range ai {
				for j, w := range row(b, p) {
					sum[j] += float64(v) * float64(w)
				}
			}
		}
		for j, s := range sum {
			if beta == 1 {
				s += float64(c.F32[i*n+j])
			}
			c.F32[i*n+j] = float32(s)
		}
	}
}
