package kernels

import "math"

// CheckRMSNorm panics unless out and x are [T, C], w [1, C] and rstd nil or [T, 1].
func CheckRMSNorm(op string, out, x, w, rstd Tensor) {
	Want(op, "out", out, x.Rows, x.Cols)
	Want(op, "w", w, 1, x.Cols)
	if !rstd.IsNil() {
		Want(op, "rstd", rstd, x.Rows, 1)
	}
}

// RMSNorm: out = w·x·r, r = (mean(x²)+eps)^-½ per row.
func (*Ref) RMSNorm(out, x, w, rstd Tensor, eps float32) {
	CheckRMSNorm("RMSNorm", out, x, w, rstd)
	for t := range x.Rows {
		r := rms(row(out, t), row(x, t), w.F32, eps)
		if !rstd.IsNil() {
			rstd.F32[t] = r
		}
	}
}

// RMSNormBackward: with x̂ = x·r and g = dout·w, dx (+)= r·(g - x̂·mean(g·x̂)) and dw += Σ_t dout·x̂.
func (*Ref) RMSNormBackward(dx, dw, dout, x, w, rstd Tensor, accumulate bool) {
	CheckRMSNorm("RMSNormBackward", dout, x, w, rstd)
	Want("RMSNormBackward", "dw", dw, 1, x.Cols)
	if !dx.IsNil() {
		Want("RMSNormBackward", "dx", dx, x.Rows, x.Cols)
	}
	sum, g := make([]float64, x.Cols), make([]float32, x.Cols)
	for t := range x.Rows {
		rmsBackward(g, sum, row(dout, t), row(x, t), w.F32, rstd.F32[t])
		if dx.IsNil() {
			continue
		}
		for j, v := range g {
			if accumulate {
				v += row(dx, t)[j]
			}
			row(dx, t)[j] = v
		}
	}
	for j, s := range sum {
		dw.F32[j] = float32(float64(dw.F32[j]) + s)
	}
}

// rms normalises one row and returns its r.
func rms(out, x, w []float32, eps float32) float32 {
	r := float32(1 / math.Sqrt(dot(x, x)/float64(len(x))+float64(eps)))
	for j, v := range x {
		out[j] = w[j] * (v * r)
	}
	return r
}

// rmsBackward writes the gradient of one row's input and adds the row's part to dw.
func rmsBackward(dx []float32, dw []float64, dout, x, w []float32, rstd float32) {
	var mean float64
	r := float64(rstd)
	for j, v := range x {
		xh := float64(v) * r
		mean += float64(dout[j]) * float64(w[j]) * xh
		dw[j] += float64(dout[j]) * xh
	}
	mean /= float64(len(x))
	for j, v := range x {
		dx[j] = float32(r * (float64(dout[j])*float64(w[j]) - float64(v)*r*mean))
	}
}
