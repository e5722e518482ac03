package policy

import (
	"testing"

	"pgregory.net/rapid"
)

func TestEarliest(t *testing.T) {
	fast, slow, beside := Load{Cost: 1}, Load{Cost: 2}, Load{Cost: 2, Beside: true}
	for _, c := range []struct {
		what   string
		own    Load
		others []Load
		ready  int
		want   bool
	}{
		{"alone", slow, nil, 1, true},
		{"equal ranks", fast, []Load{fast, fast}, 1, true},
		{"the fast one takes", fast, []Load{slow}, 1, true},
		{"the slow one leaves one", slow, []Load{fast}, 1, false},
		{"and what is not there", slow, []Load{fast}, 0, false},
		{"the other is done with two no sooner", slow, []Load{fast}, 2, true},
		{"two others are done with two", slow, []Load{fast, fast}, 2, false},
		{"with three they are not", slow, []Load{fast, fast}, 3, true},
		{"the other has one in hand", slow, []Load{{Cost: 1, Hand: 1, Since: 0.5}}, 1, false},
		{"has just begun it", slow, []Load{{Cost: 1, Hand: 1}}, 1, true},
		{"has two in hand", slow, []Load{{Cost: 1, Hand: 2, Since: 0.5}}, 1, true},
		{"is late by as much as it would take", slow, []Load{{Cost: 1, Hand: 1, Since: 2}}, 1, true},
		{"one beside a target takes three seconds, of both", beside, []Load{fast}, 2, false},
		{"the other is done with three no sooner", beside, []Load{fast}, 3, true},
		{"and with two in hand", beside, []Load{{Cost: 1, Hand: 2}}, 1, true},
		{"it will soon be done with the first", beside, []Load{{Cost: 1, Hand: 2, Since: 0.5}}, 1, false},
		{"the slow one beside the target is no reason to leave it", fast, []Load{beside}, 2, true},
		{"beside a target and as fast", Load{Cost: 1.02, Beside: true}, []Load{fast}, 1, true},
		{"the own hand counts", Load{Cost: 1, Hand: 1, Since: 0.2}, []Load{fast}, 1, false},
		{"costs that can hardly be told apart", Load{Cost: 1.02}, []Load{fast}, 1, true},
		{"the own cost is not known", Load{}, []Load{fast}, 1, true},
		{"the other's cost is not known", slow, []Load{{}}, 1, true},
	} {
		if got := Earliest(c.own, c.others, c.ready); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func drawLoad(t *rapid.T, what string) Load {
	return Load{
		Cost:   rapid.Float64Range(0.1, 4).Draw(t, what+" costs"),
		Hand:   rapid.IntRange(0, 3).Draw(t, what+" has in hand"),
		Since:  rapid.Float64Range(0, 8).Draw(t, what+" began"),
		Beside: rapid.Bool().Draw(t, what+" is beside a target"),
	}
}

func drawOthers(t *rapid.T) []Load {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Load { return drawLoad(t, "another") }), 0, 5).Draw(t, "others")
}

// A rank that has nothing in hand and is as fast as any never leaves a batch, so that equal ranks never do.
func TestTheFastestTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		others := drawOthers(t)
		own := Load{Cost: 4}
		for _, o := range others {
			own.Cost = min(own.Cost, o.Cost)
		}
		if !Earliest(own, others, rapid.IntRange(0, 9).Draw(t, "ready")) {
			t.Fatalf("%+v leaves it to %+v", own, others)
		}
	})
}

// Whatever the ranks have in hand, one of them takes a batch that is ready.
func TestSomebodyTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := append(drawOthers(t), drawLoad(t, "one"))
		ready := rapid.IntRange(1, 9).Draw(t, "ready")
		for i, own := range ranks {
			others := append(append([]Load(nil), ranks[:i]...), ranks[i+1:]...)
			if Earliest(own, others, ready) {
				return
			}
		}
		t.Fatalf("%d batches, and none of %+v takes one", ready, ranks)
	})
}

// Who takes a batch takes it too where more are ready, where it has less to do, and where another has more.
func TestMoreIsNoReasonToLeaveIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own, others, ready := drawLoad(t, "own"), drawOthers(t), rapid.IntRange(0, 9).Draw(t, "ready")
		if !Earliest(own, others, ready) {
			return
		}
		if !Earliest(own, others, ready+1) {
			t.Fatalf("%+v takes one of %d and none of %d beside %+v", own, ready, ready+1, others)
		}
		if own.Hand > 1 {
			less := own
			less.Hand--
			if !Earliest(less, others, ready) {
				t.Fatalf("%+v takes one, %+v does not beside %+v", own, less, others)
			}
		}
		if len(others) > 0 {
			i := rapid.IntRange(0, len(others)-1).Draw(t, "who")
			before := others[i]
			if others[i].Hand++; before.Hand == 0 {
				others[i].Since = 0
			}
			if !Earliest(own, others, ready) {
				t.Fatalf("%+v leaves it since %+v has more to do", own, before)
			}
		}
	})
}

// A rank takes a batch after it has left them for as long as it takes for one, and leaves them again as long then.
func TestDeferenceEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := Load{Cost: rapid.Float64Range(0.1, 4).Draw(t, "cost")}
		others := []Load{{Cost: 0.01}}
		var d Deference
		now := rapid.Float64Range(0, 1e6).Draw(t, "now")
		for range 3 {
			began := now
			for {
				take, wait := d.Take(now, own, others, rapid.IntRange(1, 3).Draw(t, "ready"), 3)
				if take {
					break
				}
				if wait <= 0 || now+wait > began+own.Cost+1e-6 {
					t.Fatalf("left at %g since %g, and %g s more", now, began, wait)
				}
				now += wait * rapid.SampledFrom([]float64{0.5, 1}).Draw(t, "looks again after")
			}
			if now < began+own.Cost-1e-6 {
				t.Fatalf("took one at %g, left them since %g", now, began)
			}
			if take, _ := d.Take(now, own, others, 1, 3); !take {
				t.Fatal("did not take what it had left long enough")
			}
			d.Taken()
		}
	})
}

// Time in which nothing was ready does not count once something is, nor does what was before another claim, and ends all the same.
func TestDeferenceToNothing(t *testing.T) {
	own, others := Load{Cost: 1}, []Load{{Cost: 0.01}}
	var d Deference
	for _, c := range []struct {
		now           float64
		ready, claims int
		take          bool
	}{
		{0, 0, 0, false}, {0.9, 0, 0, false}, {1, 0, 0, true}, {1.5, 1, 0, false}, {2.4, 0, 0, false}, {2.5, 1, 0, true},
		{2.6, 1, 1, false}, {3.5, 1, 1, false}, {3.6, 1, 1, true},
	} {
		if take, _ := d.Take(c.now, own, others, c.ready, c.claims); take != c.take {
			t.Errorf("%+v: %v", c, take)
		}
	}
}
