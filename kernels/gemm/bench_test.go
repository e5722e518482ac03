package gemm

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"penstock/kernels/internal/team"
)

// shape is one product: y = x·wᵀ, dx = dy·w and dw = dyᵀ·x are the three forms of a linear layer.
type shape struct {
	m, n, k int
	ta, tb  bool
}

var shapes = []shape{
	{512, 512, 512, false, false},
	{2048, 1024, 4096, false, true},
	{200, 128, 128, false, true},
	{512, 384, 128, false, true},
	{512, 128, 384, false, false},
	{1250, 64, 128, false, true},
	{1250, 128, 384, false, true},
	{128, 384, 1250, true, false},
	{64, 128, 1250, true, false},
	{384, 128, 512, true, false},
	{512, 2048, 128, false, true},
	{512, 128, 2048, false, false},
	{1, 2048, 128, false, true},
	{8, 384, 128, false, true},
	{16, 1024, 1024, false, true},
}

// BenchmarkMul reports GFLOP/s by the clock and GFLOP/s per second of processor time, which a busy machine leaves alone.
func BenchmarkMul(b *testing.B) {
	for _, name := range Paths() {
		p, err := Lookup(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, s := range shapes {
			for _, threads := range []int{1, runtime.GOMAXPROCS(0)} {
				b.Run(fmt.Sprintf("%s/%dx%dx%d/t%d", name, s.m, s.n, s.k, threads), func(b *testing.B) { s.bench(b, p, threads) })
			}
		}
	}
}

func (s shape) bench(b *testing.B, p *Path, threads int) {
	x, y := Dense(s.m, s.k, filled(s.m*s.k)), Dense(s.k, s.n, filled(s.k*s.n))
	if s.ta {
		x.Rows, x.Cols, x.Stride = s.k, s.m, s.m
	}
	if s.tb {
		y.Rows, y.Cols, y.Stride = s.n, s.k, s.k
	}
	z := Dense(s.m, s.n, make([]float32, s.m*s.n))
	t := team.New(threads)
	defer t.Close()
	p.Mul(t, z, x, y, s.ta, s.tb, 0)
	cpu := processorTime()
	for b.Loop() {
		p.Mul(t, z, x, y, s.ta, s.tb, 0)
	}
	flop := 2 * float64(s.m) * float64(s.n) * float64(s.k) * float64(b.N)
	b.ReportMetric(flop/1e9/b.Elapsed().Seconds(), "GFLOP/s")
	b.ReportMetric(flop/1e9/(processorTime()-cpu).Seconds(), "GFLOP/cpu-s")
}

// filled returns memory that has been written: pages that were never touched behave unlike real ones.
func filled(n int) []float32 {
	v, next := make([]float32, n), lattice()
	for i := range v {
		v[i] = next()
	}
	return v
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
