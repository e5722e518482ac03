package gemm

const (
	// fewRows is the number of rows up to which x·wᵀ is computed from w as it lies: packing w, used once, would cost
	// as much as the product. fewCols is how many rows of w a kernel reads side by side.
	fewRows, fewCols = 8, 12
	fewDepth         = 512
)

// fewRows computes columns [j0, j1) of c = a·bᵀ, where c has at most 8 rows. The roles are exchanged: rows of b give the
// elements, a packed [k, 8] the vectors.
func (c *call) fewRows(s *scratch, j0, j1 int) {
	eight := kernel{mr: fewRows, transpose: c.on.transpose}
	x, out := s.b[:fewDepth*fewRows], s.c[:fewCols*fewRows] // both fit every kernel's scratch
	for p := 0; p < c.k; p += fewDepth {
		k := min(fewDepth, c.k-p)
		eight.packA(x, c.a, c.ta, 0, p, k)
		load := c.add || p > 0
		for j := j0; j < j1; j += fewCols {
			// The last tile begins early rather than reach past the end of b; it writes its own columns only.
			first := min(j, c.c.Cols-fewCols)
			clear(out)
			if load {
				c.transfer(out, first, j, min(j+fewCols, j1), true)
			}
			c.on.dots(k, &c.b.Data[first*c.b.Stride+p], c.b.Stride, &x[0], &out[0])
			c.transfer(out, first, j, min(j+fewCols, j1), false)
		}
	}
}

// transfer moves columns [lo, hi) of c to or from out, which begins at column first.
func (c *call) transfer(out []float32, first, lo, hi int, load bool) {
	for i := range c.c.Rows {
		row := c.c.Data[i*c.c.Stride:][:c.c.Cols]
		for j := lo; j < hi; j++ {
			if load {
				out[(j-first)*fewRows+i] = row[j]
			} else {
				row[j] = out[(j-first)*fewRows+i]
			}
		}
	}
}
