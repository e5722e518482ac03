package model

import (
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
)

// Shape is the size of a packed row: its documents' lengths in tokens, and at most so many anchors of each.
type Shape struct {
	Lengths []int
	Anchors int
}

// offsets of the documents.
func (s Shape) offsets() []int32 {
	offsets := make([]int32, 1, len(s.Lengths)+1)
	for i, n := range s.Lengths {
		offsets = append(offsets, offsets[i]+int32(n))
	}
	return offsets
}

// ForwardNeed returns the bytes of scratch memory of a forward to the last tap on devices of a half type, with what the
// forward itself takes: it runs on a device without memory.
func ForwardNeed(half kernels.Type, t *hf.Target, taps []int, s Shape) (int64, error) {
	dev := kernels.NewDry(half)
	m, err := FillTarget(dev, t, taps[len(taps)-1]+1, leave)
	if err != nil {
		return 0, fmt.Errorf("memory of a forward: %w", err)
	}
	offsets := s.offsets()
	tokens := int(offsets[len(s.Lengths)])
	if err := m.Forward(make([]int32, tokens), offsets, taps, dev.AllocHalf(len(taps)*tokens, t.HiddenSize)); err != nil {
		return 0, fmt.Errorf("memory of a forward: %w", err)
	}
	return m.scratch(), nil
}

// StepNeed is ForwardNeed for a training step in which every token is supervised. It also returns how many slots of how many
// rows are trained on: what a device's own work space depends on.
func StepNeed(half kernels.Type, cfg hf.DrafterConfig, s Shape) (bytes int64, rows, trained int, err error) {
	dev := kernels.NewDry(half)
	table := dev.AllocHalf(cfg.VocabSize, cfg.HiddenSize)
	d, err := blankDrafter(dev, cfg, Vocabulary{Embedding: table, Head: table})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("memory of a step: %w", err)
	}
	b := Batch{Offsets: s.offsets()}
	tokens := int(b.Offsets[len(s.Lengths)])
	b.IDs, b.Mask = make([]int32, tokens), make([]uint8, tokens)
	for i := range b.Mask {
		b.Mask[i] = 1
	}
	for i, n := range s.Lengths {
		for a := range min(s.Anchors, n-1) {
			b.Anchors = append(b.Anchors, b.Offsets[i]+int32(a))
		}
	}
	b.Hidden = dev.AllocHalf(tokens, len(cfg.Taps)*cfg.TargetHiddenSize)
	r, err := d.Step(&b, Loss{Kind: DFlash}, d.Weights.Like())
	if err != nil {
		return 0, 0, 0, fmt.Errorf("memory of a step: %w", err)
	}
	return d.scratch(), len(r.Weight), r.Slots, nil
}

// leave fills nothing: there is no memory.
func leave(kernels.Tensor, hf.Shape) error { return nil }

// scratch is what the steps so far have needed, in bytes.
func (d *decoder) scratch() int64 {
	d.arena.Reset()
	return int64(d.arena.Size()) * int64(kernels.Float32.Bytes())
}
