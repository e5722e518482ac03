package model

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"penstock/kernels"
	"penstock/schema/hf"
)

// greedy decodes without speculation, a whole forward a token.
func greedy(t *testing.T, m *Target, prompt []int32, n int) []int32 {
	t.Helper()
	ids := slices.Clone(prompt)
	for range n {
		s, err := m.NewSession(len(ids), nil)
		if err != nil {
			t.Fatal(err)
		}
		hidden, _, err := s.Append(ids)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.dev.Argmax(hidden.RowRange(len(ids)-1, len(ids)), m.Head)...)
	}
	return ids[len(prompt):]
}

// leaky is a device that counts the elements that it has out, and spoils what it takes back.
type leaky struct {
	kernels.Ref
	out int
}

func (d *leaky) Alloc(rows, cols int) kernels.Tensor {
	d.out += rows * cols
	return d.Ref.Alloc(rows, cols)
}

func (d *leaky) AllocHalf(rows, cols int) kernels.Tensor { return d.Alloc(rows, cols) }

func (d *leaky) Free(t kernels.Tensor) {
	d.out -= t.Len()
	for i := range t.F32 {
		t.F32[i] = float32(math.NaN())
	}
}

// TestCachesGrowInPlaceOfEachOther: a decoder that had a short prompt before holds what one of a long prompt alone holds.
func TestCachesGrowInPlaceOfEachOther(t *testing.T) {
	short, long := []int32{7}, []int32{1, 2, 3, 4, 5, 6}
	decode := func(prompts ...[]int32) (held int, last Decoded) {
		dev := &leaky{}
		c := Decoder{Target: newTarget(t, dev, false), Drafter: newDrafter(t, dev, false, 2, 5, 0), MaxNew: 20}
		for _, p := range prompts {
			var err error
			if last, err = c.Decode(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		return dev.out, last
	}
	want, alone := decode(long)
	if got, after := decode(short, long); got != want || !slices.Equal(after.Output, alone.Output) {
		t.Errorf("%d elements held, %d alone; output %v, alone %v", got, want, after.Output, alone.Output)
	}
}

// TestSpeculationIsLossless: whatever the drafter proposes, the output is the target's own, and the rounds add up.
func TestSpeculationIsLossless(t *testing.T) {
	dev := &kernels.Ref{}
	for _, window := range []int{0, 3} {
		d, m := newDrafter(t, dev, false, 2, 5, window), newTarget(t, dev, false)
		c := Decoder{Target: m, Drafter: d, MaxNew: 20}
		for _, prompt := range [][]int32{{7}, {1, 2, 3, 4, 5, 6}, {7, 8}} {
			got, err := c.Decode(context.Background(), prompt)
			if err != nil {
				t.Fatal(err)
			}
			if want := greedy(t, m, prompt, len(got.Output)); !slices.Equal(got.Output, want) {
				t.Errorf("window %d: %v, alone %v", window, got.Output, want)
			}
			sum := 1
			for _, n := range got.Rounds {
				sum += n
			}
			if sum != len(got.Output) || sum < 20 || sum-got.Rounds[len(got.Rounds)-1] >= 20 {
				t.Errorf("rounds %v for %d tokens", got.Rounds, len(got.Output))
			}
		}
	}
}

// TestProposalsFollowTraining: the session's cached context gives the choices of a training step on the same sequence.
func TestProposalsFollowTraining(t *testing.T) {
	dev := &kernels.Ref{}
	for _, window := range []int{0, 3} {
		d := newDrafter(t, dev, true, 3, 4, window)
		b := row(dev, d)
		b.Offsets, b.Anchors = []int32{0, 25}, []int32{10}
		for i := range b.Mask {
			b.Mask[i] = 1
		}
		s := d.NewSession(30)
		for _, piece := range [][2]int{{0, 4}, {4, 5}, {5, 10}} {
			if err := s.Extend(b.Hidden.RowRange(piece[0], piece[1])); err != nil {
				t.Fatal(err)
			}
		}
		proposal, err := s.Propose(b.IDs[10])
		if err != nil {
			t.Fatal(err)
		}
		copy(b.IDs[11:], proposal)
		r, err := d.Step(b, Loss{Kind: DFlash}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Hits != 3 {
			t.Errorf("window %d: the training step chooses %d of 3 proposals", window, r.Hits)
		}
	}
}

func TestDecodeEnds(t *testing.T) {
	dev := &kernels.Ref{}
	c := Decoder{Target: newTarget(t, dev, false), Drafter: newDrafter(t, dev, false, 1, 4, 0), MaxNew: 30}
	prompt := []int32{1, 2, 3}
	free, err := c.Decode(context.Background(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	end := free.Output[len(free.Output)/2]
	c.EOS = []int32{99, end}
	got, err := c.Decode(context.Background(), prompt)
	if err != nil {
		t.Fatal(err)
	}
	before := len(got.Output)
	if len(got.Rounds) > 0 {
		before -= got.Rounds[len(got.Rounds)-1]
	}
	if !slices.Contains(got.Output, end) || len(got.Rounds) > 0 && slices.Contains(got.Output[:before], end) {
		t.Errorf("%v with rounds %v does not end in the round of token %d", got.Output, got.Rounds, end)
	}
	if got, err := (&Decoder{Target: c.Target, Drafter: c.Drafter, MaxNew: 1}).Decode(context.Background(), prompt); err != nil || len(got.Output) != 1 {
		t.Errorf("one token: %v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c.EOS = nil
	if _, err := c.Decode(ctx, prompt); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := c.Decode(context.Background(), nil); err == nil {
		t.Error("an empty prompt: no error")
	}
}

func TestAcceptance(t *testing.T) {
	a := NewAcceptance(4)
	if a.Length() != 0 {
		t.Errorf("nothing decoded, length %v", a.Length())
	}
	a.Add(Decoded{Output: make([]int32, 9), Rounds: []int{1, 4, 3}})
	a.Add(Decoded{Output: make([]int32, 3), Rounds: []int{2}})
	if a.Length() != 2.5 || a.Rounds != 4 || a.Tokens != 10 || a.Prompts != 2 {
		t.Errorf("%+v, length %v", a, a.Length())
	}
	if want := []float64{0.75, 0.5, 0.25}; !slices.Equal(a.PerPosition(), want) {
		t.Errorf("per position %v, want %v", a.PerPosition(), want)
	}
}

func TestDrafterRefuses(t *testing.T) {
	dev := &kernels.Ref{}
	d := newDrafter(t, dev, false, 1, 4, 0)
	s := d.NewSession(3)
	if err := s.Extend(dev.Alloc(4, 36)); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("a full cache: %v", err)
	}
	if err := s.Extend(dev.Alloc(1, 35)); err == nil || !strings.Contains(err.Error(), "35 columns") {
		t.Errorf("wrong captures: %v", err)
	}
	if _, err := s.Propose(31); err == nil {
		t.Error("a token outside the vocabulary: no error")
	}
	cfg := d.Config
	cfg.VocabSize = 40
	if _, err := NewDrafter(dev, cfg, d.Vocabulary, lively(1)); err == nil || !strings.Contains(err.Error(), "31×12") {
		t.Errorf("another vocabulary: %v", err)
	}
	if _, err := NewDrafter(dev, hf.DrafterConfig{}, d.Vocabulary, lively(1)); err == nil {
		t.Error("an empty configuration: no error")
	}
}
