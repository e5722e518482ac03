package model

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"penstock/kernels"
)

// TestPieces: every document and every anchor is in one piece, in order, and a piece of several documents keeps to the limit.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, limit := rapid.IntRange(1, 8).Draw(t, "size"), rapid.IntRange(0, 100).Draw(t, "limit")
		b := Batch{Offsets: []int32{0}, Hidden: kernels.Tensor{Cols: 3}}
		for range rapid.IntRange(1, 12).Draw(t, "documents") {
			lo := b.Offsets[len(b.Offsets)-1]
			hi := lo + int32(rapid.IntRange(1, 20).Draw(t, "tokens"))
			for a := range int32(rapid.IntRange(0, int(hi-lo)).Draw(t, "anchors")) {
				b.Anchors = append(b.Anchors, lo+a)
			}
			b.Offsets = append(b.Offsets, hi)
		}
		rows := int(b.Offsets[len(b.Offsets)-1])
		b.IDs, b.Mask = make([]int32, rows), make([]uint8, rows)
		for i := range b.IDs {
			b.IDs[i] = int32(i)
		}
		b.Hidden = kernels.Host(rows, 1, make([]float32, rows))
		var ids, offsets, anchors []int32
		offsets = append(offsets, 0)
		for _, p := range b.pieces(size, limit) {
			if limit > 0 && size*len(p.Anchors) > limit && slices.ContainsFunc(p.Anchors, func(a int32) bool { return a >= p.Offsets[1] }) &&
				slices.ContainsFunc(p.Anchors, func(a int32) bool { return a < p.Offsets[len(p.Offsets)-2] }) {
				t.Errorf("a piece of several documents has %d slots, the limit is %d", size*len(p.Anchors), limit)
			}
			lo := int32(len(ids))
			ids = append(ids, p.IDs...)
			for _, o := range p.Offsets[1:] {
				offsets = append(offsets, lo+o)
			}
			for _, a := range p.Anchors {
				anchors = append(anchors, lo+a)
			}
			if len(p.Mask) != len(p.IDs) || p.Hidden.Rows != len(p.IDs) {
				t.Errorf("%d tokens, %d of the mask, %d rows of features", len(p.IDs), len(p.Mask), p.Hidden.Rows)
			}
		}
		if !slices.Equal(ids, b.IDs) || !slices.Equal(offsets, b.Offsets) || !slices.Equal(anchors, b.Anchors) {
			t.Errorf("tokens %v, documents %v, anchors %v; the batch has %v, %v, %v", ids, offsets, anchors, b.IDs, b.Offsets, b.Anchors)
		}
	})
}

// TestStepInPieces holds a step that is computed piece by piece against the same one at once, for each objective.
func TestStepInPieces(t *testing.T) {
	dev := &kernels.Ref{}
	d := newDrafter(t, dev, false, 2, 4, 0)
	b := row(dev, d)
	for _, loss := range append(everyLoss, Loss{Kind: DPace, Gamma: 3, Alpha: 0.5}) {
		d.Slots = 0
		want, wanted := d.Weights.Like(), Result{}
		wanted, err := d.Step(b, loss, want)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{1, 8, 12, 4 * len(b.Anchors)} {
			d.Slots = limit
			grads := d.Weights.Like()
			got, err := d.Step(b, loss, grads)
			if err != nil {
				t.Fatal(err)
			}
			near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-5*math.Abs(b) }
			if !near(got.Num, wanted.Num) || !near(got.Den, wanted.Den) || !near(got.EntropyNum, wanted.EntropyNum) || !near(got.EntropyDen, wanted.EntropyDen) ||
				got.Blocks != wanted.Blocks || got.Slots != wanted.Slots || got.Hits != wanted.Hits || got.Accepted != wanted.Accepted ||
				!slices.Equal(got.At, wanted.At) || !slices.Equal(got.Weight, wanted.Weight) || !slices.Equal(got.Hit, wanted.Hit) || !slices.Equal(got.Accept, wanted.Accept) || len(got.CE) != len(wanted.CE) {
				t.Errorf("%+v, at most %d slots: %+v, want %+v", loss, limit, got, wanted)
			}
			for i := range d.Weights.Len() {
				name, g := grads.At(i)
				_, w := want.At(i)
				dev.Scale(g, -1)
				dev.Add(g, w)
				if off, length := math.Sqrt(dev.SumSquares(g)), math.Sqrt(dev.SumSquares(w)); !(off <= 1e-5*length) || length == 0 {
					t.Errorf("%+v, at most %d slots: the gradient of %s is off by %g of %g", loss, limit, name, off, length)
				}
			}
		}
	}
}
