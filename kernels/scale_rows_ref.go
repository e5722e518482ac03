package kernels

// ScaleRows: t[i] *= s[i].
func (*Ref) ScaleRows(t, s Tensor) {
	Want("ScaleRows", "s", s, t.Rows, 1)
	for i, f := range s.F32 {
		for j := range row(t, i) {
			row(t, i)[j] *= f
		}
	}
}
