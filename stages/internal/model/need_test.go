package model

import (
	"bytes"
	"slices"
	"testing"

	"penstock/kernels"
	"penstock/schema/hf"
)

// TestNeedIsWhatIsTaken holds the memory that a dry run states against the same work on a device that computes.
func TestNeedIsWhatIsTaken(t *testing.T) {
	const documents, length, anchors, tokens = 60, 200, 50, 60 * 200
	s := Shape{Lengths: slices.Repeat([]int{length}, documents), Anchors: slices.Repeat([]int{anchors}, documents)}
	target := shape(true)
	taps := []int{0, 2}
	want, err := ForwardNeed(kernels.Float32, target, taps, s)
	if err != nil {
		t.Fatal(err)
	}
	dev := &kernels.Ref{}
	m, err := NewTarget(dev, target, 3, lively(1))
	if err != nil {
		t.Fatal(err)
	}
	out := dev.Alloc(2*tokens, target.HiddenSize)
	if err := m.Forward(make([]int32, tokens), s.offsets(), taps, out); err != nil {
		t.Fatal(err)
	}
	if got := m.scratch(); got != want || got == 0 {
		t.Errorf("a forward takes %d bytes, the dry run %d", got, want)
	}

	cfg := hf.NewDrafterConfig(target, 2, 4, 0, 0, taps)
	want, rows, trained, err := StepNeed(kernels.Float32, cfg, 0, s)
	if err != nil {
		t.Fatal(err)
	}
	if rows != documents*anchors*4 || trained != documents*anchors*3 {
		t.Errorf("%d slots, %d trained on", rows, trained)
	}
	if half, _, _, err := StepNeed(kernels.BFloat16, cfg, 0, s); err != nil || half >= want || 2*half < want {
		t.Errorf("a step takes %d bytes in bfloat16, %d in float32 (%v)", half, want, err)
	}

	d, err := NewDrafter(dev, cfg, m.Vocabulary, lively(2))
	if err != nil {
		t.Fatal(err)
	}
	b := Batch{IDs: make([]int32, tokens), Mask: bytes.Repeat([]byte{1}, tokens), Offsets: s.offsets(), Hidden: dev.Alloc(tokens, 2*target.HiddenSize)}
	for i := range documents {
		for a := range anchors {
			b.Anchors = append(b.Anchors, int32(i*length+a))
		}
	}
	if _, err := d.Step(&b, Loss{Kind: DFlash}, d.Weights.Like()); err != nil {
		t.Fatal(err)
	}
	if got := d.scratch(); got != want {
		t.Errorf("a step takes %d bytes, the dry run %d", got, want)
	}
}
