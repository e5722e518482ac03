package model

import (
	"fmt"

	"penstock/kernels"
)

// Batch is one packed row of documents with the blocks to train on.
type Batch struct {
	IDs     []int32        // [S]
	Mask    []uint8        // [S], 1 where the token is supervised
	Offsets []int32        // document i is rows [Offsets[i], Offsets[i+1])
	Anchors []int32        // [N] rows, ascending
	Hidden  kernels.Tensor // [S, K·H] captures, on the drafter's device
}

func (b *Batch) check(d *Drafter) error {
	s := len(b.IDs)
	if err := checkOffsets(b.Offsets, s); err != nil {
		return err
	}
	if err := checkIDs(b.IDs, d.Config.VocabSize); err != nil {
		return err
	}
	if len(b.Mask) != s {
		return fmt.Errorf("loss mask has %d entries for %d tokens", len(b.Mask), s)
	}
	if width := len(d.Config.Taps) * d.Config.TargetHiddenSize; b.Hidden.Rows != s || b.Hidden.Cols != width {
		return fmt.Errorf("captures are %d×%d, want %d×%d", b.Hidden.Rows, b.Hidden.Cols, s, width)
	}
	for i, a := range b.Anchors {
		if a < 0 || int(a) >= s || i > 0 && a < b.Anchors[i-1] {
			return fmt.Errorf("anchor %d is row %d of %d: want ascending rows", i, a, s)
		}
	}
	return nil
}

// slots is a batch's block geometry. Slot n·B+k belongs to block n and predicts row Anchors[n]+k.
type slots struct {
	blocks []kernels.Block
	pos    []int32 // [N·B] positions
	label  []int32 // [N·B], 0 where there is no such row
	weight []uint8 // [N·B], 1 where the slot is trained on: k > 0, the row is supervised and of the anchor's document
}

func newSlots(b *Batch, size int) slots {
	start, end := documents(b.Offsets)
	n := len(b.Anchors) * size
	s := slots{blocks: make([]kernels.Block, len(b.Anchors)), pos: make([]int32, n), label: make([]int32, n), weight: make([]uint8, n)}
	for i, a := range b.Anchors {
		s.blocks[i] = kernels.Block{Start: start[a], Anchor: a}
		for k := range int32(size) {
			at, row := i*size+int(k), a+k
			s.pos[at] = row - start[a]
			if int(row) < len(b.IDs) {
				s.label[at] = b.IDs[row]
			}
			if k > 0 && row < end[a] && b.Mask[row] != 0 {
				s.weight[at] = 1
			}
		}
	}
	return s
}

// trained lists the slots of weight 1 and their labels.
func (s *slots) trained() (rows, labels []int32) {
	for i, w := range s.weight {
		if w != 0 {
			rows, labels = append(rows, int32(i)), append(labels, s.label[i])
		}
	}
	return rows, labels
}
