package gemm

// packA fills dst [k, mr], dense, with rows [i, i+mr) and columns [p, p+k) of op(a), transposed.
// Rows past the last are 0.
func (kn *kernel) packA(dst []float32, a Matrix, ta bool, i, p, k int) {
	rows := a.Rows
	if ta {
		rows = a.Cols
	}
	rows = min(kn.mr, rows-i)
	if rows < kn.mr {
		clear(dst[:k*kn.mr])
	}
	if ta {
		copyPanel(dst, kn.mr, a.Data[p*a.Stride+i:], a.Stride, k, rows, 6, kn.copy6)
	} else {
		kn.packColumns(dst, kn.mr, a.Data[i*a.Stride+p:], a.Stride, k, rows)
	}
}

// packB fills dst with panels [k, nr], dense, one behind the other, of rows [p, p+k) and columns [j, j+n) of op(b).
// Columns past the last are 0.
func (kn *kernel) packB(dst []float32, b Matrix, tb bool, p, k, j, n int) {
	for at := 0; at < n; at += kn.nr {
		panel, cols := dst[at*k:], min(kn.nr, n-at)
		if cols < kn.nr {
			clear(panel[:k*kn.nr])
		}
		if tb {
			kn.packColumns(panel, kn.nr, b.Data[(j+at)*b.Stride+p:], b.Stride, k, cols)
		} else {
			copyPanel(panel, kn.nr, b.Data[p*b.Stride+j+at:], b.Stride, k, cols, 16, kn.copy16)
		}
	}
}

// copyPanel: dst [k, cols] = src [k, cols], by the unit if whole units and a function for them are at hand.
func copyPanel(dst []float32, ldd int, src []float32, lds, k, cols, unit int, whole copier) {
	c := 0
	if whole != nil {
		for ; c+unit <= cols; c += unit {
			whole(k, &dst[c], ldd, &src[c], lds)
		}
	}
	if c < cols {
		for q := range k {
			copy(dst[q*ldd+c:], src[q*lds+c:q*lds+cols])
		}
	}
}

// packColumns: dst [k, cols] = srcᵀ, src [cols, k].
func (kn *kernel) packColumns(dst []float32, ldd int, src []float32, lds, k, cols int) {
	c, whole := 0, k&^7
	if kn.transpose != nil && whole > 0 {
		for ; c+8 <= cols; c += 8 {
			kn.transpose(whole/8, &dst[c], ldd, &src[c*lds], lds)
			for q := whole; q < k; q++ {
				for r := c; r < c+8; r++ {
					dst[q*ldd+r] = src[r*lds+q]
				}
			}
		}
	}
	for ; c < cols; c++ {
		for q, v := range src[c*lds:][:k] {
			dst[q*ldd+c] = v
		}
	}
}
