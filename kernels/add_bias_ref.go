package kernels

// AddBias: x[t] += b for every row t.
func (*Ref) AddBias(x, b Tensor) {
	Want("AddBias", "b", b, 1, x.Cols)
	for i := range x.Rows {
		for j, v := range b.F32 {
			row(x, i)[j] += v
		}
	}
}
