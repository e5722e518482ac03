package policy

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestBalance(t *testing.T) {
	wide, narrow := Limits{Floor: 4, Ceiling: 8}, Limits{Floor: 1, Ceiling: 2}
	for _, c := range []struct {
		name   string
		stocks []Stock
		want   []int
	}{
		{"nothing taken: a window's worth each", []Stock{{wide, 0, 8, 90}, {narrow, 0, 2, 9}}, []int{4, 1}},
		{"the poorest holds the other back", []Stock{{wide, 4, 8, 90}, {narrow, 0, 2, 9}}, []int{4, 1}},
		{"all have a window's worth", []Stock{{wide, 4, 8, 90}, {narrow, 1, 2, 9}}, []int{8, 2}},
		{"one that has nothing left is not waited for", []Stock{{wide, 4, 8, 90}, {narrow, 0, 2, 0}}, []int{8, 2}},
		{"one that is in none of these windows neither", []Stock{{wide, 4, 8, 90}, {narrow, 0, 0, 3}}, []int{8, 1}},
		{"the end of the run", []Stock{{wide, 8, 8, 0}, {narrow, 1, 1, 0}}, []int{8, 2}},
	} {
		if d := cmp.Diff(c.want, Balance(c.stocks)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// Whatever the state: every limit is within its bounds, the poorest bucket may take one more, and no bucket may be ahead
// of it by more than a window's worth and the batch that rounding gives.
func TestBalanceHoldsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stocks := make([]Stock, rapid.IntRange(1, 6).Draw(t, "buckets"))
		for i := range stocks {
			s := &stocks[i]
			draw := func(what string, lo, hi int) int { return rapid.IntRange(lo, hi).Draw(t, fmt.Sprint(what, i)) }
			s.Limits.Floor = draw("floor", 1, 9)
			s.Limits.Ceiling = s.Limits.Floor + draw("more", 0, 20)
			s.Within = draw("within", 0, s.Limits.Ceiling)
			s.Open = draw("open", 0, s.Within)
			s.Left = s.Within - s.Open + draw("later", 0, 50)
		}
		limits := Balance(stocks)
		least := 1.0
		for _, s := range stocks {
			if s.Within > 0 && s.Left > 0 {
				least = min(least, float64(s.Open)/float64(s.Within))
			}
		}
		for i, s := range stocks {
			if limits[i] < s.Limits.Floor || limits[i] > s.Limits.Ceiling {
				t.Fatalf("bucket %d: limit %d outside %+v", i, limits[i], s.Limits)
			}
			if s.Within == 0 || s.Left == 0 {
				continue
			}
			if share := float64(s.Open) / float64(s.Within); share <= least && s.Open < s.Within && limits[i] <= s.Open {
				t.Fatalf("bucket %d is the poorest, with %d open of %d, and may not take another: %d", i, s.Open, s.Within, limits[i])
			}
			if ahead := float64(limits[i]-s.Limits.Floor) - least*float64(s.Within); ahead >= 1 {
				t.Fatalf("bucket %d: limit %d is more than a window ahead of %g of %d", i, limits[i], least, s.Within)
			}
		}
	})
}

func TestActuator(t *testing.T) {
	for _, c := range []struct {
		name  string
		wants []int
		want  []int
	}{
		{"up at once", []int{5, 9}, []int{6, 9}},
		{"down only after four looks", []int{3, 2, 3, 3, 3}, []int{6, 6, 6, 3, 3}},
		{"to the largest of them", []int{2, 5, 3, 3, 3, 3}, []int{6, 6, 6, 5, 5, 3}},
		{"a want that wavers moves nothing", []int{6, 3, 6, 3, 6, 3, 6, 3}, []int{6, 6, 6, 6, 6, 6, 6, 6}},
	} {
		var a Actuator
		limit := 6
		var got []int
		for _, w := range c.wants {
			limit = a.Move(limit, w, 0, 1)
			got = append(got, limit)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}

// A limit is at least what is wanted, and one that is lowered leaves room for what is open and for what may be taken
// meanwhile.
func TestActuatorLeavesRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Actuator
		draw := func(what string, i int) int { return rapid.IntRange(1, 20).Draw(t, fmt.Sprint(what, i)) }
		limit, pullers := draw("limit", 0), draw("pullers", 0)
		for i := range draw("looks", 0) {
			want, open := draw("want", i), min(limit, draw("open", i))
			next := a.Move(limit, want, open, pullers)
			if next < want || next < limit && next < open+pullers {
				t.Fatalf("look %d: limit %d with %d open becomes %d, wanted is %d", i, limit, open, next, want)
			}
			limit = next
		}
	})
}

func TestCover(t *testing.T) {
	l := Limits{Floor: 4, Ceiling: 8}
	for limit, want := range map[int]bool{-1: true, 0: false, 3: false, 4: true, 8: true} {
		if err := l.Cover("b512", limit); (err == nil) != want {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	if (Limits{}).Cover("b512", 0) == nil {
		t.Error("a limit of 0 covers nothing")
	}
	if CoverSlots("pack", 26, 27) == nil || CoverSlots("pack", 27, 27) != nil || CoverSlots("pack", -1, 27) != nil {
		t.Error("a hop needs room for every slot")
	}
	if CoverRanks(2, 3) == nil || CoverRanks(3, 3) != nil {
		t.Error("a window needs a batch for every rank")
	}
}

func TestFirstIsTheHeadOfTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Order{Deterministic: rapid.Bool().Draw(t, "deterministic"), MaxAge: 5}
		heads := make([]Head, rapid.IntRange(0, 9).Draw(t, "heads"))
		for i := range heads {
			draw := func(what string, hi int) int { return rapid.IntRange(0, hi).Draw(t, fmt.Sprint(what, i)) }
			heads[i] = Head{Window: uint32(draw("window", 2)), Index: uint32(i), Cost: float64(draw("cost", 3)), Age: 0}
		}
		first := o.First(heads)
		if len(heads) == 0 {
			if first != -1 {
				t.Fatal("there is no head")
			}
			return
		}
		want := heads[first]
		o.Choose(heads)
		if heads[0] != want {
			t.Fatalf("first %+v, the order begins with %+v", want, heads[0])
		}
	})
}

func BenchmarkChoice(b *testing.B) {
	for _, n := range []int{8, 64, 1024} {
		b.Run(fmt.Sprint(n, " buckets"), func(b *testing.B) {
			heads := make([]Head, n)
			for i := range heads {
				heads[i] = Head{Bucket: "b", Window: uint32(i % 3), Index: uint32(i), Cost: float64(i * 7919 % 1000)}
			}
			var c Correction
			for b.Loop() {
				i := Order{MaxAge: 1}.First(heads)
				heads[i].Cost = c.Seconds(heads[i].Bucket, heads[i].Cost)
			}
		})
	}
}
