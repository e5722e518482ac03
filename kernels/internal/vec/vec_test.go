package vec

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// wave returns n numbers of both signs and several sizes, different for each seed.
func wave(n, seed int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(3 * math.Sin(float64(i*7+seed*13)+0.3) * math.Cos(float64(i+seed)))
	}
	return v
}

// args are the operands of one call: vectors to read and write, and what the call returned.
type args struct {
	v   [6][]float32
	ret float64
}

// loops pairs every function with the portable loop that states it.
var loops = []struct {
	name      string
	fast, ref func(a *args)
	tolerance float64 // of each element, relative to the largest
}{
	{"Max", func(a *args) { a.ret = float64(Max(a.v[0])) }, func(a *args) { a.ret = float64(maxGo(a.v[0][0], a.v[0])) }, 0},
	{"Dot", func(a *args) { a.ret = float64(Dot(a.v[0], a.v[1])) }, func(a *args) { a.ret = float64(dotGo(a.v[0], a.v[1])) }, 1e-5},
	{"Dot3", func(a *args) { a.ret = float64(Dot3(a.v[0], a.v[1], a.v[2])) }, func(a *args) { a.ret = float64(dot3Go(a.v[0], a.v[1], a.v[2])) }, 1e-5},
	{"SumSquares", func(a *args) { a.ret = SumSquares(a.v[0]) }, func(a *args) { a.ret = sumSquaresGo(a.v[0]) }, 1e-14},
	{"ExpSum", func(a *args) { a.ret = float64(ExpSum(a.v[0], 1.5)) }, func(a *args) { a.ret = float64(expSumGo(a.v[0], 1.5)) }, 1e-6},
	{"SwiGLU", func(a *args) { SwiGLU(a.v[0], a.v[1], a.v[2]) }, func(a *args) { swigluGo(a.v[0], a.v[1], a.v[2]) }, 5e-7},
	{
		"SwiGLUBackward", func(a *args) { SwiGLUBackward(a.v[0], a.v[1], a.v[2], a.v[3], a.v[4]) },
		func(a *args) { swigluBackwardGo(a.v[0], a.v[1], a.v[2], a.v[3], a.v[4]) }, 5e-7,
	},
	{"Add", func(a *args) { Add(a.v[0], a.v[1]) }, func(a *args) { addGo(a.v[0], a.v[1]) }, 0},
	{"Scale", func(a *args) { Scale(a.v[0], a.v[1], 0.3) }, func(a *args) { scaleGo(a.v[0], a.v[1], 0.3) }, 0},
	{"ScaledDifference", func(a *args) { ScaledDifference(a.v[0], a.v[1], 0.3) }, func(a *args) { scaledDifferenceGo(a.v[0], a.v[1], 0.3) }, 0},
	{
		"Rope", func(a *args) { Rope(a.v[0], a.v[1], a.v[2], a.v[3], a.v[4], a.v[5]) },
		func(a *args) { ropeGo(a.v[0], a.v[1], a.v[2], a.v[3], a.v[4], a.v[5]) }, 3e-7,
	},
	{"Norm", func(a *args) { Norm(a.v[0], a.v[1], a.v[2], 0.7) }, func(a *args) { normGo(a.v[0], a.v[1], a.v[2], 0.7) }, 0},
	{
		"NormInputGrad", func(a *args) { NormInputGrad(a.v[0], a.v[1], a.v[2], a.v[3], 0.7, 0.2, false) },
		func(a *args) { normInputGradGo(a.v[0], a.v[1], a.v[2], a.v[3], 0.7, 0.2, false) }, 3e-7,
	},
	{
		"NormInputGrad, added", func(a *args) { NormInputGrad(a.v[0], a.v[1], a.v[2], a.v[3], 0.7, 0.2, true) },
		func(a *args) { normInputGradGo(a.v[0], a.v[1], a.v[2], a.v[3], 0.7, 0.2, true) }, 3e-7,
	},
	{"NormWeightGrad", func(a *args) { NormWeightGrad(a.v[0], a.v[1], a.v[2], 0.7) }, func(a *args) { normWeightGradGo(a.v[0], a.v[1], a.v[2], 0.7) }, 3e-7},
	{"AdamW", func(a *args) { a.adamw(AdamW) }, func(a *args) { a.adamw(adamwGo) }, 0},
}

func (a *args) adamw(f func(w, m, v, g []float32, a *Adam)) {
	for i, v := range a.v[2] {
		a.v[2][i] = v * v
	}
	f(a.v[0], a.v[1], a.v[2], a.v[3], &Adam{GradScale: 0.5, Rate1: 0.1, Beta2: 0.999, Rate2: 0.001, Root: 3, Eps: 1e-8, Keep: 0.99, Step: 1e-3})
}

func TestAssemblyEqualsPortableLoops(t *testing.T) {
	t.Logf("AVX2: %v, AVX-512: %v", hasAVX2, hasAVX512)
	for _, l := range loops {
		t.Run(l.name, func(t *testing.T) {
			for n := range 100 {
				if n == 0 && l.name == "Max" {
					continue
				}
				var fast, ref args
				for i := range fast.v {
					// One element more, which must stay.
					fast.v[i] = append(wave(n, i), 99)[:n]
					ref.v[i] = wave(n, i)
				}
				l.fast(&fast)
				l.ref(&ref)
				if d := math.Abs(fast.ret - ref.ret); !(d <= l.tolerance*max(1, float64(n))) {
					t.Errorf("length %d returns %v, want %v", n, fast.ret, ref.ret)
				}
				for i := range fast.v {
					for j, v := range fast.v[i] {
						if d := math.Abs(float64(v - ref.v[i][j])); !(d <= l.tolerance*30) {
							t.Errorf("length %d: operand %d element %d is %v, want %v", n, i, j, v, ref.v[i][j])
						}
					}
					if fast.v[i][:n+1][n] != 99 {
						t.Errorf("length %d: operand %d was written past its end", n, i)
					}
				}
			}
		})
	}
}

// expSums are the implementations of ExpSum that run here.
func expSums() map[string]func(x []float32) float32 {
	fs := map[string]func(x []float32) float32{"go": func(x []float32) float32 { return expSumGo(x, 0) }}
	if hasAVX2 {
		fs["avx2"] = func(x []float32) float32 { return expSumAVX2(len(x), &x[0], 0) }
	}
	if hasAVX512 {
		fs["avx512"] = func(x []float32) float32 { return expSumAVX512(len(x), &x[0], 0) }
	}
	return fs
}

func TestExpIsAccurate(t *testing.T) {
	for name, exp := range expSums() {
		t.Run(name, func(t *testing.T) {
			var worst float64
			x, y := make([]float32, 1<<12), make([]float32, 1<<12)
			for lo := -87.3; lo < 87.8; lo += 0.5 {
				for i := range x {
					x[i] = float32(lo + 0.5*float64(i)/float64(len(x)))
				}
				copy(y, x)
				exp(y)
				for i, v := range x {
					want := math.Exp(float64(v))
					ulp := float64(math.Nextafter32(float32(want), math.MaxFloat32)) - float64(float32(want))
					worst = max(worst, math.Abs(float64(y[i])-want)/ulp)
				}
			}
			t.Logf("largest error %.2f units in the last place", worst)
			if worst > 2 {
				t.Errorf("largest error %v units in the last place", worst)
			}
		})
	}
}

func TestExpAtTheEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for name, exp := range expSums() {
		x := []float32{0, -inf, inf, nan, -87.34, -1000, 89, 1000, -0.0, 1, -1, -87.3, 88.3, 1e-30, -1e-30, math.MaxFloat32}
		y := slices.Clone(x)
		sum := exp(y)
		for i, v := range x {
			want := math.Exp(float64(v))
			switch got := y[i]; {
			case v != v && got == got:
				t.Errorf("%s: e^NaN = %v", name, got)
			case v < smallest && got != 0:
				t.Errorf("%s: e^%v = %v, want 0", name, v, got)
			case v > 88.4 && !(got > 2e38):
				t.Errorf("%s: e^%v = %v", name, v, got)
			case v >= smallest && v < 88.4 && !(math.Abs(float64(got)-want) <= want*3e-7):
				t.Errorf("%s: e^%v = %v, want %v", name, v, got, want)
			}
		}
		if sum == sum {
			t.Errorf("%s: a sum with NaN is %v", name, sum)
		}
	}
}

// TestVectorExpsAgree: AVX2 and AVX-512 give the same bits, sum included.
func TestVectorExpsAgree(t *testing.T) {
	fs := expSums()
	if fs["avx2"] == nil {
		t.Log("this processor has no AVX2: nothing to compare")
		return
	}
	for name, exp := range fs {
		if name == "go" {
			continue
		}
		for _, n := range []int{16, 32, 160, 2048} {
			x, y := wave(n, 3), wave(n, 3)
			sx, sy := exp(x), fs["avx2"](y)
			if sx != sy || !slices.Equal(x, y) {
				t.Errorf("%s and avx2 differ at length %d: sums %v and %v", name, n, sx, sy)
			}
		}
	}
}

func BenchmarkLoops(b *testing.B) {
	for _, n := range []int{64, 2048} {
		for _, l := range loops {
			b.Run(fmt.Sprintf("%s/%d", l.name, n), func(b *testing.B) {
				var a args
				for i := range a.v {
					a.v[i] = wave(n, i)
				}
				for b.Loop() {
					if l.name == "ExpSum" {
						a.v[0][0] = -1
					}
					l.fast(&a)
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(n), "ns/element")
			})
		}
	}
}
