package model

import (
	"slices"
	"testing"

	"penstock/kernels"
)

// What a step says of a section of the gradient holds: nothing is added to it any more. The sections are all of the set, and each
// has something in it.
func TestSections(t *testing.T) {
	dev := &kernels.Ref{}
	for _, layers := range []int{1, 3} {
		for _, limit := range []int{0, 12} {
			d := newDrafter(t, dev, layers == 3, layers, 4, 0)
			d.Slots = limit
			grads := d.Weights.Like()
			sections := d.Sections(grads)
			var then [][]float32
			done := func(i int) {
				if i != len(then) {
					t.Errorf("section %d is complete after %d others", i, len(then))
				}
				then = append(then, slices.Clone(sections[i].F32))
			}
			if _, err := d.StepBySections(row(dev, d), everyLoss[0], grads, done); err != nil {
				t.Fatal(err)
			}
			if len(then) != len(sections) || len(sections) != layers+1 {
				t.Fatalf("%d layers: %d sections, of which %d are complete", layers, len(sections), len(then))
			}
			end := grads.Flat.Len()
			for i, s := range sections {
				if !slices.Equal(then[i], s.F32) {
					t.Errorf("%d layers, at most %d slots: section %d was not complete", layers, limit, i)
				}
				if dev.SumSquares(s) == 0 {
					t.Errorf("%d layers: section %d is empty", layers, i)
				}
				if end -= s.Len(); &s.F32[0] != &grads.Flat.F32[end] {
					t.Errorf("%d layers: section %d is not in front of the one before", layers, i)
				}
			}
			if end != 0 {
				t.Errorf("%d layers: %d elements are in no section", layers, end)
			}
		}
	}
}
