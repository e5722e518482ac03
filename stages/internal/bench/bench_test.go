package bench

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"penstock/stages/internal/geometry"
)

func TestParseLengths(t *testing.T) {
	for _, bad := range []string{"", "fixed", "fixed:", "fixed:3", "fixed:x", "uniform"} {
		if l, err := ParseLengths(bad); err == nil {
			t.Errorf("%q: parsed as %v", bad, l)
		}
	}
	l, err := ParseLengths("lognormal")
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(0, 0))
	const n = 20_000
	offsets := l.draw(r, n)
	var logs float64
	for i := range n {
		length := offsets[i+1] - offsets[i]
		if length < shortest || length > longest {
			t.Fatalf("length %d", length)
		}
		logs += math.Log(float64(length))
	}
	if got := math.Exp(logs / n); got < 800 || got > 950 {
		t.Errorf("geometric mean %v, want near %d", got, median)
	}
}

func lengths(t *testing.T, s string) Lengths {
	t.Helper()
	l, err := ParseLengths(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func lookup(t *testing.T, name string) geometry.Model {
	t.Helper()
	m, err := geometry.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestOperationsOfTheKnownSizes holds the counts against figures that were worked out for Qwen3-8B independently.
func TestOperationsOfTheKnownSizes(t *testing.T) {
	m := lookup(t, "qwen3-8b")
	o := Options{Model: m, Lengths: lengths(t, "fixed:3072"), Batch: 4, Anchors: 512}
	b := o.batch(rand.New(rand.NewPCG(0, 0)))
	tokens := float64(len(b.ids))
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"target, whole, G a token", targetFlops(m, 36, b.offsets) / tokens / 1e9, 14.8},
		{"target, to the last tap, G a token", targetFlops(m, 34, b.offsets) / tokens / 1e9, 14.0},
		{"drafter step, T", draftFlops(m, b, len(b.anchors)*15) / 1e12, 294},
	} {
		if math.Abs(c.got/c.want-1) > 0.015 {
			t.Errorf("%s: %.2f, want %.2f", c.name, c.got, c.want)
		}
	}
}

func TestTinyModelIsMeasured(t *testing.T) {
	o := Options{Device: "cpu", Model: lookup(t, "tiny-go"), Lengths: lengths(t, "fixed:64"), Batch: 2, Anchors: 8, Seconds: 0.05, Profile: true}
	for name, run := range map[string]func(context.Context, Options) (Report, error){"target": Target, "draft": Draft} {
		r, err := run(context.Background(), o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.Tokens != 128*r.Batches || r.TokensS <= 0 || r.TFLOPS <= 0 || r.PeakBytes <= 0 || !strings.HasPrefix(r.Device, "cpu/") {
			t.Errorf("%s: %+v", name, r)
		}
		if r.Ceiling <= 0 || r.Share != r.TFLOPS/r.Ceiling || r.Ops["Gemm"] <= 0 {
			t.Errorf("%s: ceiling %v, share %v, seconds by op %v", name, r.Ceiling, r.Share, r.Ops)
		}
		if most := r.Batches * 2 * 8 * 7; name == "draft" && (r.Slots <= most/2 || r.Slots > most) {
			t.Errorf("%d slots in %d batches, at most %d", r.Slots, r.Batches, most)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Target(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	o.Lengths = lengths(t, "fixed:100000")
	if _, err := Draft(context.Background(), o); err == nil || !strings.Contains(err.Error(), "positions") {
		t.Errorf("documents longer than the model allows: %v", err)
	}
}
