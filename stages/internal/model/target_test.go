package model

import (
	"slices"
	"strings"
	"testing"

	"penstock/kernels"
	"penstock/kernels/kernelstest"
)

// forward returns the captures as the drafter reads them, [T, K·H].
func forward(t *testing.T, m *Target, ids, offsets []int32, taps []int) kernels.Tensor {
	t.Helper()
	h := m.geo.HiddenSize
	planes, rows := m.dev.Alloc(len(taps)*len(ids), h), m.dev.Alloc(len(ids), len(taps)*h)
	if err := m.Forward(ids, offsets, taps, planes); err != nil {
		t.Fatal(err)
	}
	Concat(m.dev, rows, planes)
	return rows
}

// TestPackingChangesNothing: documents packed in one row give what each gives alone.
func TestPackingChangesNothing(t *testing.T) {
	for _, bias := range []bool{false, true} {
		dev := &kernels.Ref{}
		m := newTarget(t, dev, bias)
		ids, offsets, taps := kernelstest.Rows(20, 31, 3), []int32{0, 7, 7, 8, 20}, []int{1, 3}
		packed := forward(t, m, ids, offsets, taps)
		for i := range len(offsets) - 1 {
			lo, hi := int(offsets[i]), int(offsets[i+1])
			alone := forward(t, m, ids[lo:hi], []int32{0, int32(hi - lo)}, taps)
			if !slices.Equal(alone.F32, packed.RowRange(lo, hi).F32) {
				t.Errorf("document %d of the packed row differs from the document alone", i)
			}
		}
	}
}

// TestSessionFollowsForward: pieces appended to a cache, with a wrong one taken back, give the captures of one forward.
func TestSessionFollowsForward(t *testing.T) {
	dev := &kernels.Ref{}
	m := newTarget(t, dev, true)
	ids, taps := kernelstest.Rows(15, 31, 3), []int{0, 2}
	want := forward(t, m, ids, []int32{0, 15}, taps)
	s, err := m.NewSession(20, taps)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := m.NewSession(15, nil)
	if err != nil {
		t.Fatal(err)
	}
	hidden, _, err := whole.Append(ids)
	if err != nil {
		t.Fatal(err)
	}
	wantHidden := slices.Clone(hidden.F32)
	for _, piece := range [][]int32{ids[:6], {1, 2, 3}, ids[6:7], ids[7:]} {
		wrong := piece[0] == 1 && len(piece) == 3
		lo := s.Len()
		hidden, taken, err := s.Append(piece)
		if err != nil {
			t.Fatal(err)
		}
		if wrong {
			if err := s.Truncate(lo); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if e := kernelstest.MaxRel(taken.F32, want.RowRange(lo, s.Len()).F32); e > 1e-6 {
			t.Errorf("captures of tokens %d.. differ by %.2g", lo, e)
		}
		if e := kernelstest.MaxRel(hidden.F32, wantHidden[lo*12:s.Len()*12]); e > 1e-6 {
			t.Errorf("hidden rows of tokens %d.. differ by %.2g", lo, e)
		}
	}
}

func TestForwardEndsAfterTheLastTap(t *testing.T) {
	dev := &kernels.Ref{}
	s := shape(false)
	m, err := NewTarget(dev, s, 2, lively(1))
	if err != nil {
		t.Fatal(err)
	}
	ids, want, got := kernelstest.Rows(9, 31, 3), dev.Alloc(9, 12), dev.Alloc(9, 12)
	if err := newTarget(t, dev, false).Forward(ids, []int32{0, 9}, []int{1}, want); err != nil {
		t.Fatal(err)
	}
	if err := m.Forward(ids, []int32{0, 9}, []int{1}, got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.F32, want.F32) {
		t.Error("two layers and four give different captures of layer 1")
	}
	if _, err := m.NewSession(4, nil); err == nil || !strings.Contains(err.Error(), "2 of the target's 4") {
		t.Errorf("a session of a part of the target: %v", err)
	}
}

func TestTargetRefuses(t *testing.T) {
	dev := &kernels.Ref{}
	m := newTarget(t, dev, false)
	out := dev.Alloc(3, 12)
	for _, c := range []struct {
		ids, offsets []int32
		taps         []int
		want         string
	}{
		{[]int32{1, 2, 3}, []int32{0, 3}, []int{4}, "taps [4]"},
		{[]int32{1, 2, 3}, []int32{0, 3}, []int{-1}, "taps [-1]"},
		{[]int32{1, 2, 3}, []int32{0, 3}, []int{2, 1}, "ascending"},
		{[]int32{1, 2, 3}, []int32{0, 3}, nil, "no taps"},
		{[]int32{1, 31, 3}, []int32{0, 3}, []int{1}, "token 1 is 31"},
		{[]int32{1, 2, -3}, []int32{0, 3}, []int{1}, "token 2 is -3"},
		{[]int32{1, 2, 3}, []int32{0, 2}, []int{1}, "do not span 3 tokens"},
		{[]int32{1, 2, 3}, []int32{0, 2, 1, 3}, []int{1}, "fall from 2 to 1"},
	} {
		if err := m.Forward(c.ids, c.offsets, c.taps, out); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v %v: error %v, want %q", c.ids, c.offsets, c.taps, err, c.want)
		}
	}
	s, err := m.NewSession(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Append([]int32{1, 2, 3}); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("a full cache: %v", err)
	}
	if err := s.Truncate(1); err == nil {
		t.Error("truncating to more than there is: no error")
	}
}
