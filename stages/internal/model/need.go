package model

import (
	"bytes"
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
)

// Shape is the size of a packed row: of each document its length in tokens, and how many anchors it has.
type Shape struct{ Lengths, Anchors []int }

// offsets of the documents.
func (s Shape) offsets() []int32 {
	offsets := make([]int32, 1, len(s.Lengths)+1)
	for i, n := range s.Lengths {
		offsets = append(offsets, offsets[i]+int32(n))
	}
	return offsets
}

// Tokens is the row's length.
func (s Shape) Tokens() (n int) {
	for _, l := range s.Lengths {
		n += l
	}
	return n
}

// ForwardNeed returns the bytes of scratch memory of a forward to the last tap on devices of a half type, with what the
// forward itself takes: it runs on a device without memory.
func ForwardNeed(half kernels.Type, t *hf.Target, taps []int, s Shape) (int64, error) {
	dev := kernels.NewDry(half)
	m, err := FillTarget(dev, t, taps[len(taps)-1]+1, leave)
	if err != nil {
		return 0, fmt.Errorf("memory of a forward: %w", err)
	}
	if err := m.forwardOn(s, taps, dev.AllocHalf(len(taps)*s.Tokens(), t.HiddenSize)); err != nil {
		return 0, fmt.Errorf("memory of a forward: %w", err)
	}
	return m.scratch(), nil
}

// forwardOn is a forward of a made-up row of that shape into out [K·T, H].
func (m *Target) forwardOn(s Shape, taps []int, out kernels.Tensor) error {
	return m.Forward(make([]int32, s.Tokens()), s.offsets(), taps, out)
}

// StepNeed is ForwardNeed for a training step in which every token is supervised, with [Drafter.Slots]. It also returns of how
// many slots at once how many are trained on: what a device's own work space depends on.
func StepNeed(half kernels.Type, cfg hf.DrafterConfig, slots int, s Shape) (bytes int64, rows, trained int, err error) {
	dev := kernels.NewDry(half)
	table := dev.AllocHalf(cfg.VocabSize, cfg.HiddenSize)
	d, err := blankDrafter(dev, cfg, Vocabulary{Embedding: table, Head: table})
	if err != nil {
		return 0, 0, 0, fmt.Errorf("memory of a step: %w", err)
	}
	d.Slots = slots
	b := d.made(s, dev.AllocHalf(s.Tokens(), len(cfg.Taps)*cfg.TargetHiddenSize))
	grads := d.Weights.Like()
	for _, p := range b.pieces(cfg.BlockSize, slots) {
		r, err := d.Step(&p, Loss{Kind: DFlash}, grads)
		if err != nil {
			return 0, 0, 0, fmt.Errorf("memory of a step: %w", err)
		}
		rows, trained = max(rows, len(r.Weight)), max(trained, r.Slots)
	}
	return d.scratch(), rows, trained, nil
}

// made is a made-up batch of that shape with features [T, K·H].
func (d *Drafter) made(s Shape, features kernels.Tensor) *Batch {
	b := &Batch{Offsets: s.offsets(), IDs: make([]int32, s.Tokens()), Mask: bytes.Repeat([]byte{1}, s.Tokens()), Hidden: features}
	for i, n := range s.Lengths {
		for a := range min(s.Anchors[i], n-1) {
			b.Anchors = append(b.Anchors, b.Offsets[i]+int32(a))
		}
	}
	return b
}

// leave fills nothing: there is no memory.
func leave(kernels.Tensor, hf.Shape) error { return nil }

// scratch is what the steps so far have needed, in bytes.
func (d *decoder) scratch() int64 {
	d.arena.Reset()
	return int64(d.arena.Size()) * int64(kernels.Float32.Bytes())
}
