package kernelstest

import (
	"math"
	"strings"
	"testing"

	"penstock/kernels"
)

func TestRefConforms(t *testing.T) { Conformance(t, &kernels.Ref{}) }

// broken is Ref with one fault at a time.
type broken struct {
	kernels.Ref
	fault string
	calls int
}

func (b *broken) Add(dst, src kernels.Tensor) {
	b.calls++
	switch b.fault {
	case "not repeatable":
		dst.F32[0] += float32(b.calls) * 1e-5
	case "wrong":
		b.Ref.Add(dst, src)
	case "unset":
		dst.F32[0] = float32(math.NaN())
		return
	}
	b.Ref.Add(dst, src)
}

func TestCompareFindsFaults(t *testing.T) {
	c := Case{"Add", "3×5", func(c *Call, d kernels.Device) { d.Add(c.InOut("dst", 3, 5), c.In(3, 5)) }}
	if p := compare(&broken{}, c, 0, 0); len(p) > 0 {
		t.Errorf("no fault, yet %q", p)
	}
	for fault, want := range map[string]string{
		"not repeatable": "differs between two runs",
		"wrong":          "off by",
		"unset":          "off by +Inf",
	} {
		if p := strings.Join(compare(&broken{fault: fault}, c, 1e-3, 1e-3), "; "); !strings.Contains(p, want) {
			t.Errorf("%s: reported %q, want %q", fault, p, want)
		}
	}
}

func TestCompareFindsStrayWrites(t *testing.T) {
	c := Case{"Zero", "3×5", func(c *Call, d kernels.Device) {
		c.Out("t", 3, 5)
		if _, faulty := d.(*broken); faulty {
			clear(c.outs[0].whole.F32)
		}
		d.Zero(c.outs[0].view)
	}}
	if p := strings.Join(compare(&broken{}, c, 0, 0), "; "); !strings.Contains(p, "wrote outside of t") {
		t.Errorf("reported %q", p)
	}
}

func TestMaxRel(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		got, want []float32
		rel       float64
	}{
		{[]float32{1, 2}, []float32{1, 2}, 0},
		{[]float32{1, 3}, []float32{1, 2}, 0.5},
		{[]float32{nan}, []float32{1}, math.Inf(1)},
		{[]float32{nan}, []float32{nan}, 0},
		{[]float32{1}, nil, math.Inf(1)},
	} {
		if r := MaxRel(c.got, c.want); r != c.rel {
			t.Errorf("MaxRel(%v, %v) = %v, want %v", c.got, c.want, r, c.rel)
		}
	}
}
