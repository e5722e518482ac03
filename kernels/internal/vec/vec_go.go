package vec

import "math"

func maxGo(top float32, x []float32) float32 {
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

func dotGo(a, b []float32) (s float32) {
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

func dot3Go(a, b, c []float32) (s float32) {
	for i, v := range a {
		s += v * b[i] * c[i]
	}
	return s
}

func sumSquaresGo(x []float32) (s float64) {
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return s
}

// smallest is the argument below which e^x is taken as 0.
const smallest = -87.3365

func expSumGo(x []float32, shift float32) (s float32) {
	for i, v := range x {
		v -= shift
		if v < smallest {
			x[i] = 0
			continue
		}
		x[i] = float32(math.Exp(float64(v)))
		s += x[i]
	}
	return s
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }

func swigluGo(out, gate, up []float32) {
	for i, g := range gate {
		out[i] = g * sigmoid(g) * up[i]
	}
}

func swigluBackwardGo(dgate, dup, dout, gate, up []float32) {
	for i, g := range gate {
		s, d := sigmoid(g), dout[i]
		dup[i] = d * (g * s)
		dgate[i] = d * up[i] * (s + g*s*(1-s))
	}
}

func addGo(dst, src []float32) {
	for i, v := range src {
		dst[i] += v
	}
}

func scaleGo(dst, x []float32, s float32) {
	for i, v := range x {
		dst[i] = v * s
	}
}

func scaledDifferenceGo(x, p []float32, delta float32) {
	for i, v := range p {
		x[i] = v * (x[i] - delta)
	}
}

func ropeGo(lo, hi, x, y, cos, sin []float32) {
	for i, c := range cos {
		a, b := x[i], y[i]
		lo[i], hi[i] = a*c-b*sin[i], b*c+a*sin[i]
	}
}

func normGo(out, x, w []float32, r float32) {
	for i, v := range x {
		out[i] = w[i] * (v * r)
	}
}

func normInputGradGo(dx, dout, x, w []float32, r, m float32, add bool) {
	for i, v := range x {
		d := r * (dout[i]*w[i] - v*m)
		if add {
			d += dx[i]
		}
		dx[i] = d
	}
}

func normWeightGradGo(dw, dout, x []float32, r float32) {
	for i, v := range x {
		dw[i] += dout[i] * (v * r)
	}
}

func adamwGo(w, m, v, g []float32, a *Adam) {
	for i, gi := range g {
		gi *= a.GradScale
		m[i] += (gi - m[i]) * a.Rate1
		v[i] = a.Beta2*v[i] + a.Rate2*gi*gi
		den := float32(math.Sqrt(float64(v[i])))*a.Root + a.Eps
		w[i] = w[i]*a.Keep - a.Step*(m[i]/den)
	}
}
