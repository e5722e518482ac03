package kernelstest

import (
	"math"

	"penstock/kernels"
)

func optimizerCases() []Case {
	all := each("SumSquares", func(c *Call, d kernels.Device, r, n int) { c.Value("sum", float32(d.SumSquares(c.In32(r, n)))) })
	for _, step := range []int{1, 2, 1000} {
		all = append(all, each("AdamW", func(c *Call, d kernels.Device, r, n int) {
			a := kernels.Adam{LR: 6e-4, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, Step: step, GradScale: 0.25}
			var half kernels.Tensor
			if step > 1 {
				half = c.Out("half", r, n)
			}
			d.AdamW(c.InOut32("w", r, n), half, c.InOut32("m", r, n), c.Positive("v", r, n), c.In32(r, n), a)
		})...)
	}
	for _, fill := range []string{"pattern", "nan", "inf", "zero", "constant"} {
		all = append(all, each("CheckFeatures", func(c *Call, d kernels.Device, r, n int) { features(c, d, r, n, fill) })...)
	}
	return all
}

// features checks one kind of content and keeps all that the op says of it, and whether the sum is right.
func features(c *Call, d kernels.Device, r, n int, fill string) {
	v := c.pattern(r * n)
	for i := range v {
		switch fill {
		case "zero":
			v[i] = 0
		case "constant":
			v[i] = v[i%n]
		}
	}
	if len(v) > 0 && fill == "nan" {
		v[len(v)-1] = float32(math.NaN())
	}
	if len(v) > 0 && fill == "inf" {
		v[len(v)/2] = float32(math.Inf(-1))
	}
	f, want := d.CheckFeatures(NewHalf(d, r, n, v)), kernels.CheckSum(v)
	if d.Half() == kernels.BFloat16 {
		raw := make([]byte, 2*len(v))
		kernels.RoundBF16(raw, v)
		want = kernels.CheckSumBF16(raw)
	}
	c.Value("flags", flag(f.Finite), flag(f.Zero), flag(f.Constant), flag(f.Checksum == want))
}

func flag(b bool) float32 {
	if b {
		return 1
	}
	return 0
}
