package model

import (
	"slices"
	"testing"

	"penstock/kernels"
	"penstock/schema/hf"
)

// takes counts what is allocated on a device that computes nothing.
type takes struct {
	*kernels.Dry
	allocs int
}

func (d *takes) Alloc(rows, cols int) kernels.Tensor {
	d.allocs++
	return d.Dry.Alloc(rows, cols)
}

// TestNothingIsAllocatedAfterARehearsal: neither by rows that were named nor by smaller ones.
func TestNothingIsAllocatedAfterARehearsal(t *testing.T) {
	wide := Shape{Lengths: slices.Repeat([]int{200}, 40), Anchors: slices.Repeat([]int{60}, 40)}
	long := Shape{Lengths: []int{9000}, Anchors: []int{8}}
	dev, target, taps := &takes{Dry: kernels.NewDry(kernels.BFloat16)}, shape(true), []int{0, 2}
	m, err := FillTarget(dev, target, 3, leave)
	if err != nil {
		t.Fatal(err)
	}
	d, err := blankDrafter(dev, hf.NewDrafterConfig(target, 2, 4, 0, 0, taps), m.Vocabulary)
	if err != nil {
		t.Fatal(err)
	}
	grads := d.Weights.Like()
	if err := m.Rehearse([]Shape{wide, long}, taps); err != nil {
		t.Fatal(err)
	}
	if err := d.Rehearse([]Shape{long, wide}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Shape{wide, long, {Lengths: []int{900, 900}, Anchors: []int{40, 3}}, wide} {
		out := dev.AllocHalf(len(taps)*s.Tokens(), target.HiddenSize)
		dev.allocs = 0
		if err := m.forwardOn(s, taps, out); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Step(d.made(s, out.Reshape(s.Tokens(), len(taps)*target.HiddenSize)), Loss{Kind: DFlash}, grads); err != nil {
			t.Fatal(err)
		}
		if dev.allocs != 0 {
			t.Errorf("%d allocations for %d tokens with %d documents", dev.allocs, s.Tokens(), len(s.Lengths))
		}
	}
}

func TestARehearsalLeavesTheWeights(t *testing.T) {
	dev, target, taps := &kernels.Ref{}, shape(true), []int{0, 2}
	m, err := NewTarget(dev, target, 3, lively(1))
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDrafter(dev, hf.NewDrafterConfig(target, 2, 4, 0, 0, taps), m.Vocabulary, lively(2))
	if err != nil {
		t.Fatal(err)
	}
	before, err := d.Weights.Checksum()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Rehearse([]Shape{{Lengths: []int{20, 9}, Anchors: []int{5, 2}}}); err != nil {
		t.Fatal(err)
	}
	if after, err := d.Weights.Checksum(); err != nil || after != before {
		t.Errorf("the weights have changed (%v)", err)
	}
}
