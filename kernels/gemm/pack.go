package gemm

// packA fills dst [k, mr], dense, with rows [i, i+mr) and columns [p, p+k) of op(a), transposed.
// Rows past the last are 0.
func (kn *kernel) packA(dst []float32, a Matrix, ta bool, i, p, k int) {
	mr := kn.mr
	rows := a.Rows
	if ta {
		rows = a.Cols
	}
	rows = min(mr, rows-i)
	if rows < mr {
		clear(dst[:k*mr])
	}
	switch {
	case !ta:
		for r := range rows {
			for q, v := range a.Data[(i+r)*a.Stride+p:][:k] {
				dst[q*mr+r] = v
			}
		}
	case mr == 6 && rows == 6:
		copyRows[[6]float32](dst, 6, a.Data[p*a.Stride+i:], a.Stride, k)
	case mr == 12 && rows == 12:
		copyRows[[12]float32](dst, 12, a.Data[p*a.Stride+i:], a.Stride, k)
	default:
		for q := range k {
			copy(dst[q*mr:], a.Data[(p+q)*a.Stride+i:][:rows])
		}
	}
}

// packB fills dst with panels [k, nr], dense, one behind the other, of rows [p, p+k) and columns [j, j+n) of op(b).
// Columns past the last are 0.
func (kn *kernel) packB(dst []float32, b Matrix, tb bool, p, k, j, n int) {
	nr := kn.nr
	for ; n > 0; j, n, dst = j+nr, n-nr, dst[min(k*nr, len(dst)):] {
		cols := min(nr, n)
		if cols < nr {
			clear(dst[:k*nr])
		}
		switch {
		case tb:
			kn.packColumns(dst, b, p, k, j, cols)
		case nr == 16 && cols == 16:
			copyRows[[16]float32](dst, 16, b.Data[p*b.Stride+j:], b.Stride, k)
		case nr == 32 && cols == 32:
			copyRows[[32]float32](dst, 32, b.Data[p*b.Stride+j:], b.Stride, k)
		default:
			for q := range k {
				copy(dst[q*nr:], b.Data[(p+q)*b.Stride+j:][:cols])
			}
		}
	}
}

// packColumns fills one panel from rows [j, j+cols) of b, which op turns into columns.
func (kn *kernel) packColumns(dst []float32, b Matrix, p, k, j, cols int) {
	nr, c, whole := kn.nr, 0, k&^7
	if kn.transpose != nil && whole > 0 {
		for ; c+8 <= cols; c += 8 {
			kn.transpose(whole/8, &dst[c], nr, &b.Data[(j+c)*b.Stride+p], b.Stride)
			for r := c; r < c+8; r++ {
				for q := whole; q < k; q++ {
					dst[q*nr+r] = b.Data[(j+r)*b.Stride+p+q]
				}
			}
		}
	}
	for ; c < cols; c++ {
		for q, v := range b.Data[(j+c)*b.Stride+p:][:k] {
			dst[q*nr+c] = v
		}
	}
}

// copyRows copies n rows the length of T from src, of stride lds, to dst, of stride ldd.
func copyRows[T [6]float32 | [12]float32 | [16]float32 | [32]float32](dst []float32, ldd int, src []float32, lds, n int) {
	for q := range n {
		*rowOf[T](dst[q*ldd:]) = *rowOf[T](src[q*lds:])
	}
}
