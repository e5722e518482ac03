package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
)

var everyLoss = []Loss{{Kind: DFlash, Gamma: 3}, {Kind: DFlash}}

// TestGradientIsTheSlope compares, tensor by tensor, the gradient along itself and along a random direction with the
// slope of the loss's numerator.
func TestGradientIsTheSlope(t *testing.T) {
	for _, c := range []struct {
		bias                 bool
		layers, size, window int
	}{{false, 1, 4, 0}, {true, 2, 5, 0}, {true, 3, 4, 3}, {false, 2, 16, 6}} {
		dev := &kernels.Ref{}
		d := newDrafter(t, dev, c.bias, c.layers, c.size, c.window)
		b, loss, grads := row(dev, d), Loss{Kind: DFlash, Gamma: 3}, d.Weights.Like()
		if _, err := d.Step(b, loss, grads); err != nil {
			t.Fatal(err)
		}
		value := func() float64 {
			r, err := d.Step(b, loss, nil)
			if err != nil {
				t.Fatal(err)
			}
			return r.Num
		}
		for i := range d.Weights.Len() {
			name, w := d.Weights.At(i)
			_, g := grads.At(i)
			length := math.Sqrt(dev.SumSquares(g))
			for along, u := range map[string][]float32{"itself": g.F32, "a random direction": kernelstest.Pattern(g.Len(), 9)} {
				want, got := project(g.F32, u), slope(w.F32, u, value)
				if !(math.Abs(got-want) <= 2e-3*length) || length == 0 {
					t.Errorf("%+v %s: gradient of length %.6g is %.6g along %s, the loss's slope %.6g", c, name, length, want, along, got)
				}
			}
		}
	}
}

// project returns g·u/|u|.
func project(g, u []float32) float64 {
	var gu, uu float64
	for i, v := range u {
		gu, uu = gu+float64(g[i])*float64(v), uu+float64(v)*float64(v)
	}
	return gu / math.Sqrt(uu)
}

// slope returns the derivative of f as w moves along u, by central differences of fourth order; w is left as it was.
func slope(w, u []float32, f func() float64) float64 {
	const h = 4e-3
	before, length := slices.Clone(w), project(u, u)
	at := func(step float64) float64 {
		for i, v := range before {
			w[i] = v + float32(step*float64(u[i])/length)
		}
		defer copy(w, before)
		return f()
	}
	return (8*(at(h)-at(-h)) - (at(2*h) - at(-2*h))) / (12 * h)
}

// TestPaceGradient: with its weights held at their values, D-PACE's gradient is that of Σ W·ce.
func TestPaceGradient(t *testing.T) {
	dev := &kernels.Ref{}
	d := newDrafter(t, dev, false, 2, 5, 0)
	b, grads := row(dev, d), d.Weights.Like()
	pace := Loss{Kind: DPace, Alpha: 0.5}
	r, err := d.Step(b, pace, grads)
	if err != nil {
		t.Fatal(err)
	}
	held, _ := pace.weights(r.Weight, r.CE, 5)
	value := func() float64 {
		r, err := d.Step(b, pace, nil)
		if err != nil {
			t.Fatal(err)
		}
		var s float64
		for i, w := range held {
			s += float64(w) * float64(r.CE[i])
		}
		return s
	}
	if v := value(); math.Abs(v-r.Num) > 1e-4*r.Num {
		t.Errorf("numerator %v, Σ W·ce %v", r.Num, v)
	}
	w, g := d.Weights.Tensor("layers.1.mlp.up_proj.weight"), grads.Tensor("layers.1.mlp.up_proj.weight")
	if got, want := slope(w.F32, g.F32, value), project(g.F32, g.F32); math.Abs(got-want) > 2e-3*want {
		t.Errorf("gradient of length %.6g, slope along it %.6g", want, got)
	}
}

// TestCrossEntropyBesideTheLoss: it is DFlash's loss, whatever the objective, and sums over batches.
func TestCrossEntropyBesideTheLoss(t *testing.T) {
	dev := &kernels.Ref{}
	d := newDrafter(t, dev, false, 2, 5, 0)
	b := row(dev, d)
	plain, err := d.Step(b, Loss{Kind: DFlash, Gamma: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	paced, err := d.Step(b, Loss{Kind: DPace, Gamma: 4, Alpha: 0.5}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]Result{"dflash": plain, "dpace": paced} {
		if r.EntropyNum != plain.Num || r.EntropyDen != plain.Den || r.EntropyDen == 0 {
			t.Errorf("%s: cross-entropy %v/%v, want %v/%v", name, r.EntropyNum, r.EntropyDen, plain.Num, plain.Den)
		}
	}
	sum := paced
	sum.Add(plain)
	if sum.EntropyNum != 2*plain.Num || sum.EntropyDen != 2*plain.Den {
		t.Errorf("sum %v/%v", sum.EntropyNum, sum.EntropyDen)
	}
}

// TestGradientsAccumulate: two batches into one sum are the sum of each, and a second step allocates nothing.
func TestGradientsAccumulate(t *testing.T) {
	dev := &counting{}
	d := newDrafter(t, dev, true, 2, 4, 3)
	b, loss := row(dev, d), Loss{Kind: DFlash, Gamma: 2}
	once, twice := d.Weights.Like(), d.Weights.Like()
	if _, err := d.Step(b, loss, once); err != nil {
		t.Fatal(err)
	}
	allocs := dev.allocs
	for range 2 {
		if _, err := d.Step(b, loss, twice); err != nil {
			t.Fatal(err)
		}
	}
	if dev.allocs != allocs {
		t.Errorf("%d allocations after the first step", dev.allocs-allocs)
	}
	once.Add(once)
	if e := kernelstest.MaxRel(twice.Flat.F32, once.Flat.F32); e > 1e-6 {
		t.Errorf("two steps differ from twice one by %.2g", e)
	}
}

// TestBlocksAreIndependent: a block's losses do not depend on which others are in the row, nor on rows from its anchor on.
func TestBlocksAreIndependent(t *testing.T) {
	for _, window := range []int{0, 3} {
		dev := &kernels.Ref{}
		d := newDrafter(t, dev, false, 2, 4, window)
		b := row(dev, d)
		all, err := d.Step(b, everyLoss[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		anchors := b.Anchors
		for n, a := range anchors {
			alone := *b
			alone.Anchors = anchors[n : n+1]
			alone.Hidden = kernelstest.New(dev, b.Hidden.Rows, b.Hidden.Cols, b.Hidden.F32)
			later := alone.Hidden.RowRange(int(a), b.Hidden.Rows)
			dev.Scale(later, -7)
			r, err := d.Step(&alone, everyLoss[0], nil)
			if err != nil {
				t.Fatal(err)
			}
			if e := kernelstest.MaxRel(r.CE, all.CE[n*4:(n+1)*4]); e > 1e-6 {
				t.Errorf("window %d, block %d: losses differ by %.2g", window, n, e)
			}
		}
	}
}

func TestNothingToTrainOn(t *testing.T) {
	dev := &kernels.Ref{}
	d := newDrafter(t, dev, false, 1, 4, 0)
	b, grads := row(dev, d), d.Weights.Like()
	clear(b.Mask)
	for kind, den := range map[LossKind]float64{DFlash: 0, DPace: 1} {
		r, err := d.Step(b, Loss{Kind: kind, Gamma: 4, Alpha: 0.5}, grads)
		if err != nil {
			t.Fatal(err)
		}
		if r.Num != 0 || r.Den != den || r.Slots != 0 || r.Blocks != 8 || dev.SumSquares(grads.Flat) != 0 {
			t.Errorf("%s: %+v, gradient %v", kind, r, dev.SumSquares(grads.Flat))
		}
	}
	b.Anchors = nil
	if r, err := d.Step(b, everyLoss[0], grads); err != nil || r.Blocks != 0 {
		t.Errorf("no anchors: %+v, %v", r, err)
	}
}

func TestStepRefuses(t *testing.T) {
	dev := &kernels.Ref{}
	d := newDrafter(t, dev, false, 1, 4, 0)
	for want, spoil := range map[string]func(b *Batch, l *Loss){
		"loss mask has 3":          func(b *Batch, _ *Loss) { b.Mask = b.Mask[:3] },
		"anchor 1 is row 25 of 25": func(b *Batch, _ *Loss) { b.Anchors = []int32{1, 25} },
		"anchor 1 is row 1 of":     func(b *Batch, _ *Loss) { b.Anchors = []int32{4, 1} },
		"captures are 24×36":       func(b *Batch, _ *Loss) { b.Hidden = b.Hidden.RowRange(0, 24) },
		"do not span":              func(b *Batch, _ *Loss) { b.Offsets = []int32{0, 7} },
		"token 4 is 31":            func(b *Batch, _ *Loss) { b.IDs[4] = 31 },
		`loss "kl"`:                func(_ *Batch, l *Loss) { l.Kind = "kl" },
		"alpha 2":                  func(_ *Batch, l *Loss) { l.Alpha = 2 },
	} {
		b, l := row(dev, d), everyLoss[0]
		spoil(b, &l)
		if _, err := d.Step(b, l, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func ExampleResult() {
	r := Result{Weight: []uint8{0, 1, 1, 0, 1}, Hit: []uint8{0, 1, 1, 0, 0}}
	r.count(5)
	fmt.Println(r.Slots, r.Hits, r.Accept, r.At)
	// Output: 3 2 [2] [{0 0 0} {1 1 1} {1 1 1} {0 0 0} {1 0 0}]
}
