//go:build cuda

package cuda

import (
	"math"
	"strings"
	"testing"

	base "penstock/kernels"
	"penstock/kernels/kernelstest"
)

// gpu opens the first GPU for float32. Without one, tests fail: nothing is skipped.
func gpu(t *testing.T) *Device {
	t.Helper()
	return opened(t, 0, base.Float32)
}

func opened(t *testing.T, ordinal int, half base.Type) *Device {
	t.Helper()
	d, err := Open(ordinal, half)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestConformance(t *testing.T) {
	for _, half := range []base.Type{base.Float32, base.BFloat16} {
		t.Run(half.String(), func(t *testing.T) {
			d := opened(t, 0, half)
			t.Logf("device %s", d.Name())
			kernelstest.Conformance(t, d)
		})
	}
}

// TestConformanceOfWarps: attention without warpgroup kernels, as other GPUs run it.
func TestConformanceOfWarps(t *testing.T) {
	d := opened(t, 0, base.BFloat16)
	d.warpsOnly = true
	kernelstest.Conformance(t, d)
}

// TestWarpgroups: on Hopper the kernels that were built for it alone are there and are used; elsewhere their twins are.
func TestWarpgroups(t *testing.T) {
	d := opened(t, 0, base.BFloat16)
	major, minor, err := d.gpu.ComputeCapability()
	if err != nil {
		t.Fatal(err)
	}
	for _, dim := range []int{64, 128} {
		h := base.Heads{Q: 2, KV: 1, Dim: dim, Scale: 1}
		tile := d.tensorTile(base.BFloat16, h)
		if tile == nil || tile.dim != dim || tile.warpgroups != (major == 9 && minor == 0) {
			t.Errorf("heads of %d at %d.%d take %+v (built for 90a?)", dim, major, minor, tile)
		}
		if d.tensorTile(base.Float32, h) != nil {
			t.Errorf("float32 heads of %d take tensor cores", dim)
		}
	}
	if d.tensorTile(base.BFloat16, base.Heads{Q: 1, KV: 1, Dim: 32, Scale: 1}) != nil {
		t.Error("heads of 32 take tensor cores")
	}
}

func TestOpenRefusesAGPUThatIsNotThere(t *testing.T) {
	if _, err := Open(4096, base.Float32); err == nil || !strings.Contains(err.Error(), "cuda:4096: no such GPU") {
		t.Errorf("error %v", err)
	}
}

func TestOpenWithoutKernels(t *testing.T) {
	t.Setenv(kernelsDir, t.TempDir())
	if _, err := Open(0, base.Float32); err == nil || !strings.Contains(err.Error(), "task build:cuda") {
		t.Errorf("error %v", err)
	}
}

// The first failure names the op and its shapes; what follows does nothing and does not hide it.
func TestFailureNamesTheOp(t *testing.T) {
	d := gpu(t)
	x := d.Alloc(2, 3)
	huge := d.Alloc(1<<20, 1<<22)
	d.Zero(huge)
	if n := d.SumSquares(x); n != 0 {
		t.Errorf("an op after the failure returns %v", n)
	}
	for range 2 {
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "cuda:0: Alloc 1048576×4194304: allocate") {
			t.Errorf("error %v", err)
		}
	}
}

func TestHostTensorPanics(t *testing.T) {
	d := gpu(t)
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "host memory") {
			t.Errorf("panic %v", r)
		}
	}()
	d.Zero(base.Host(1, 1, []float32{1}))
}

func TestRowsOutsidePanic(t *testing.T) {
	d := gpu(t)
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "entry 1 is row 3 of table") {
			t.Errorf("panic %v", r)
		}
	}()
	d.Gather(d.Alloc(2, 1), d.Alloc(3, 1), d.Index([]int32{0, 3}))
}

// Lists of an earlier call must not be overwritten before Sync, and the memory is used again after it.
func TestStaging(t *testing.T) {
	d := gpu(t)
	table := kernelstest.New(d, 1000, 1, kernelstest.Pattern(1000, 1))
	want := kernelstest.Pattern(1000, 1)
	for range 3 {
		var lists [][]int32
		var outs []base.Tensor
		for i := range 40 {
			list := kernelstest.Rows(9000, 1000, uint64(i))
			out := d.Alloc(len(list), 1)
			d.Gather(out, table, d.Index(list))
			lists, outs = append(lists, list), append(outs, out)
		}
		for i, out := range outs {
			for j, v := range kernelstest.Read(d, out) {
				if v != want[lists[i][j]] {
					t.Fatalf("list %d, entry %d: %v, want %v", i, j, v, want[lists[i][j]])
				}
			}
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := len(d.staging[0].chunks), len(d.staging[1].chunks); a != 2 || b != 2 {
		t.Errorf("%d and %d staging chunks after three rounds of 40 lists of 36 kB, want 2 and 2", a, b)
	}
}

// An index is still valid after one Sync: a step's backward pass uses those of its forward pass.
func TestIndexOutlivesASync(t *testing.T) {
	d := gpu(t)
	table, out := kernelstest.New(d, 100, 1, kernelstest.Pattern(100, 1)), d.Alloc(2, 1)
	index := d.Index([]int32{7, 99})
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	d.Index([]int32{1, 2})
	d.Gather(out, table, index)
	want := kernelstest.Pattern(100, 1)
	if got := kernelstest.Read(d, out); got[0] != want[7] || got[1] != want[99] {
		t.Errorf("gathered %v, want %v", got, []float32{want[7], want[99]})
	}
}

// TestProjectionInChunks: rows that do not fit the logits' buffer at once give what single rows give.
func TestProjectionInChunks(t *testing.T) {
	d := gpu(t)
	const rows, hidden, vocab = 3, 4, logitElements/3 + 1
	head := d.Alloc(vocab, hidden)
	list := []int32{5, vocab - 1, 77}
	x := kernelstest.New(d, rows, hidden, kernelstest.Pattern(rows*hidden, 2))
	d.Scatter(head, x, d.Index(list))
	d.Scale(head, 8)
	ce, hit := d.Alloc(rows, 1), d.Alloc(rows, 1)
	d.HeadLoss(ce, hit, base.Tensor{}, x, head, base.Tensor{}, d.Index(list))
	top := d.Argmax(x, head)
	ces, hits := kernelstest.Read(d, ce), kernelstest.Read(d, hit)
	for i := range rows {
		one, own := d.Alloc(1, 1), d.Alloc(1, 1)
		d.HeadLoss(one, own, base.Tensor{}, x.RowRange(i, i+1), head, base.Tensor{}, d.Index(list[i:i+1]))
		if v := kernelstest.Read(d, one)[0]; math.Abs(float64(v-ces[i])) > 1e-5*math.Abs(float64(v)) || math.IsNaN(float64(v)) {
			t.Errorf("row %d: loss %v together, %v alone", i, ces[i], v)
		}
		if v := kernelstest.Read(d, own)[0]; v != hits[i] || (v == 1) != (top[i] == list[i]) {
			t.Errorf("row %d: hit %v together, %v alone, first maximum %d, label %d", i, hits[i], v, top[i], list[i])
		}
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}
