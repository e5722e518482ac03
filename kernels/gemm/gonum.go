package gemm

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"penstock/kernels/internal/team"
)

// mulGonum leaves the sharing of the work to gonum.
func mulGonum(_ *team.Team, c, a, b Matrix, ta, tb, add bool) {
	beta := float32(0)
	if add {
		beta = 1
	}
	blas32.Gemm(transpose(ta), transpose(tb), 1, general(a), general(b), beta, general(c))
}

func transpose(t bool) blas.Transpose {
	if t {
		return blas.Trans
	}
	return blas.NoTrans
}

func general(m Matrix) blas32.General {
	return blas32.General{Rows: m.Rows, Cols: m.Cols, Stride: m.Stride, Data: m.Data}
}
