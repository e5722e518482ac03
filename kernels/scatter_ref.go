package kernels

// CheckScatter panics unless x has one row per entry of rows and the width of out.
func CheckScatter(out, x Tensor, rows Index) { Want("Scatter", "x", x, rows.N, out.Cols) }

// Scatter: out[rows[i]] = x[i].
func (*Ref) Scatter(out, x Tensor, rows Index) {
	CheckScatter(out, x, rows)
	for i, r := range rows.Host {
		copy(row(out, int(r)), row(x, i))
	}
}
