package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestChoose(t *testing.T) {
	heads := []Head{
		{Bucket: "long", Window: 1, Index: 4, Cost: 9},
		{Bucket: "short", Window: 0, Index: 3, Cost: 1},
		{Bucket: "mid", Window: 0, Index: 2, Cost: 5},
		{Bucket: "old", Window: 0, Index: 1, Cost: 0.5, Age: time.Minute},
	}
	for _, c := range []struct {
		name  string
		order Order
		want  []string
	}{
		{"window, then cost", Order{}, []string{"mid", "short", "old", "long"}},
		{"age override", Order{MaxAge: 10 * time.Second}, []string{"old", "mid", "short", "long"}},
		{"deterministic", Order{Deterministic: true, MaxAge: 10 * time.Second}, []string{"old", "mid", "short", "long"}},
	} {
		h := append([]Head(nil), heads...)
		c.order.Choose(h)
		var got []string
		for _, x := range h {
			got = append(got, x.Bucket)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

func TestReserve(t *testing.T) {
	r := Reserve{Oldest: 5}
	for _, c := range []struct {
		window uint32
		free   int
		want   bool
	}{{5, 0, false}, {4, 1, true}, {5, 1, true}, {6, 1, false}, {6, 2, true}} {
		if got := r.Admit(c.window, c.free); got != c.want {
			t.Errorf("window %d with %d free: %v", c.window, c.free, got)
		}
	}
}

func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		per := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 40).Draw(t, "batches")
		ahead := rapid.IntRange(1, 5).Draw(t, "lookahead")
		want := Limits{}
		for w := range per {
			want.Floor = max(want.Floor, per[w])
			sum := 0
			for j := w; j <= w+ahead && j < len(per); j++ {
				sum += per[j]
			}
			want.Ceiling = max(want.Ceiling, sum)
		}
		got := Bounds(per, ahead)
		if got != want {
			t.Fatalf("bounds %+v, want %+v", got, want)
		}
		if c := got.Clamp(rapid.IntRange(-3, 60).Draw(t, "want")); c < 1 || c < got.Floor || c > max(1, got.Ceiling) {
			t.Fatalf("clamped to %d outside %+v", c, got)
		}
	})
}

func TestPublishable(t *testing.T) {
	for w, want := range map[uint32]bool{3: true, 4: true, 5: true, 6: false} {
		if got := Publishable(w, 3, 2); got != want {
			t.Errorf("window %d with 3 open and 2 ahead: %v", w, got)
		}
	}
	if Sufficient("target-1", 1) == nil || Sufficient("target-1", 2) != nil {
		t.Error("two slots are what a pool needs")
	}
}
