package kernels

import "math"

// NewRope returns the frequencies 1/theta^(2i/dim), i < dim/2, each operation rounded to float32, with factor 1
// (Su et al., 2021). Scaled variants change InvFreq and Factor.
func NewRope(dim int, theta float64) Rope {
	inv := make([]float32, dim/2)
	for i := range inv {
		inv[i] = 1 / float32(math.Pow(theta, float64(float32(2*i)/float32(dim))))
	}
	return Rope{InvFreq: inv, Factor: 1}
}
