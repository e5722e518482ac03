package kernels

// CheckGather panics unless out has one row per entry of rows and the width of table.
func CheckGather(out, table Tensor, rows Index) { Want("Gather", "out", out, rows.N, table.Cols) }

// Gather: out[i] = table[rows[i]].
func (*Ref) Gather(out, table Tensor, rows Index) {
	CheckGather(out, table, rows)
	for i, r := range rows.Host {
		copy(row(out, i), row(table, int(r)))
	}
}
