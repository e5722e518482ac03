package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"penstock/schema"
)

func batch(gen, window, index uint32) schema.Batch {
	return schema.Batch{Run: "r", Gen: gen, Window: window, Index: index, Bucket: "b64"}
}

func TestLineageFollowsTheLedger(t *testing.T) {
	var l Lineage
	seq := uint64(0)
	apply := func(r schema.Record) bool { seq++; return l.Apply(r, seq) }
	if !apply(schema.Gen{Gen: 1, Start: 0}) || l.Gen != 1 || l.Next != 0 {
		t.Fatalf("first generation: %+v", l)
	}
	apply(schema.Claim{Batch: batch(1, 0, 0), Rank: "draft-1", Incarnation: 7})
	if s := l.Of(0, 0); s.State != Claimed || s.Owner != 7 || s.Seq != seq {
		t.Errorf("claimed: %+v", s)
	}
	apply(schema.Added{Batch: batch(1, 0, 0), Rank: "draft-1", Incarnation: 7})
	apply(schema.Claim{Batch: batch(1, 0, 0), Rank: "draft-2", Incarnation: 8})
	if s := l.Of(0, 0); s.State != Added || s.Rank != "draft-1" {
		t.Errorf("a claim after the addition changed it: %+v", s)
	}
	apply(schema.Suspect{Batch: batch(1, 0, 1), From: "target-1"})
	apply(schema.Dead{Batch: batch(1, 0, 1), Reason: "not finite"})
	if _, _, ok := l.Complete(0, []uint32{0, 1, 2}); ok {
		t.Error("complete without batch 2")
	}
	added, dead, ok := l.Complete(0, []uint32{0, 1})
	if !ok || !cmp.Equal(added, []uint32{0}) || !cmp.Equal(dead, []uint32{1}) {
		t.Errorf("complete: %v %v %v", added, dead, ok)
	}
	if apply(schema.Commit{Gen: 1, Window: 1}) {
		t.Error("a window committed out of order")
	}
	if !apply(schema.Commit{Gen: 1, Window: 0}) || l.Next != 1 || !l.Committed(0) || l.Committed(1) {
		t.Errorf("after the commit: %+v", l)
	}
	if apply(schema.Commit{Gen: 1, Window: 0}) {
		t.Error("a window committed twice")
	}
	apply(schema.Added{Batch: batch(1, 0, 2)})
	if s := l.Of(0, 2); s.State != Planned {
		t.Errorf("an addition to a committed window: %+v", s)
	}
	if !apply(schema.Gen{Gen: 3, Start: 1}) || l.Next != 1 {
		t.Errorf("new generation: %+v", l)
	}
	if apply(schema.Gen{Gen: 2, Start: 0}) || apply(schema.Commit{Gen: 1, Window: 1}) {
		t.Error("an older generation still counts")
	}
	if !l.Stale(batch(1, 2, 9)) || l.Stale(batch(3, 1, 9)) {
		t.Error("staleness by generation")
	}
}

func TestRankEpochVoidsTheDead(t *testing.T) {
	var l Lineage
	l.Apply(schema.Gen{Gen: 1}, 1)
	l.Apply(schema.Added{Batch: batch(1, 0, 0), Rank: "draft-1"}, 2)
	l.Apply(schema.Added{Batch: batch(1, 0, 1), Rank: "draft-2"}, 3)
	l.Apply(schema.Claim{Batch: batch(1, 0, 2), Rank: "draft-2"}, 4)
	l.Apply(schema.Dead{Batch: batch(1, 0, 3)}, 5)
	l.Apply(schema.RankEpoch{Gen: 1, Window: 0, RankEpoch: 1, Members: []string{"draft-1"}}, 6)
	want := []State{Added, Planned, Planned, Dead}
	for i, w := range want {
		if s := l.Of(0, uint32(i)); s.State != w {
			t.Errorf("batch %d: %v, want %v", i, s.State, w)
		}
	}
	if s := l.Of(0, 1); s.Seq != 3 {
		t.Errorf("the sequence for the next compare-and-set was lost: %+v", s)
	}
}

func TestMembersAreIncarnations(t *testing.T) {
	var l Lineage
	seq := uint64(0)
	apply := func(r schema.Record) { seq++; l.Apply(r, seq) }
	claim := func(i uint32, rank string, inc uint64) schema.Claim {
		return schema.Claim{Batch: batch(1, 0, i), Rank: rank, Incarnation: inc}
	}
	apply(schema.Gen{Gen: 1})
	apply(claim(0, "draft-2", 7))
	apply(schema.RankEpoch{Gen: 1, RankEpoch: 1, Members: []string{"draft-1", "draft-2"}, Incarnations: []uint64{5, 8}})
	if s := l.Of(0, 0); s.State != Planned || s.Seq != 2 {
		t.Errorf("claim of a former draft-2: %+v", s)
	}
	apply(claim(0, "draft-2", 7)) // sent before it died, stored after
	if s := l.Of(0, 0); s.State != Planned || s.Seq != seq {
		t.Errorf("late claim of a former draft-2: %+v", s)
	}
	apply(claim(0, "draft-2", 8))
	if s := l.Of(0, 0); s.State != Claimed || s.Owner != 8 {
		t.Errorf("claim of a member: %+v", s)
	}
	apply(claim(0, "", 0))
	if s := l.Of(0, 0); s.State != Planned || s.Owner != 0 {
		t.Errorf("given back: %+v", s)
	}
	apply(claim(0, "draft-1", 5))
	apply(schema.Suspect{Batch: batch(1, 0, 0), From: "target-1"})
	if s := l.Of(0, 0); s.State != Planned || s.Suspects != 1 {
		t.Errorf("suspect while claimed: %+v", s)
	}
}

func TestAgreement(t *testing.T) {
	var l Lineage
	l.Apply(schema.Gen{Gen: 1}, 1)
	l.Apply(schema.RankEpoch{Gen: 1, RankEpoch: 3, Members: []string{"draft-1", "draft-2"}, Incarnations: []uint64{5, 8}}, 2)
	prepare := func(rank string, inc uint64, epoch uint32, hash uint64) {
		l.Apply(schema.Prepared{Gen: 1, Rank: rank, Incarnation: inc, RankEpoch: epoch, Hash: hash}, 9)
	}
	prepare("draft-1", 5, 3, 77)
	prepare("draft-2", 8, 2, 77)
	if ok, err := l.Agreed(); ok || err != nil {
		t.Errorf("one prepared in an epoch that is over: %v, %v", ok, err)
	}
	prepare("draft-2", 8, 3, 77)
	if ok, err := l.Agreed(); !ok || err != nil {
		t.Errorf("both prepared: %v, %v", ok, err)
	}
	prepare("draft-2", 8, 3, 78)
	if _, err := l.Agreed(); err == nil {
		t.Error("different sums agree")
	}
	l.Apply(schema.RankEpoch{Gen: 1, RankEpoch: 4, Members: []string{"draft-1"}, Incarnations: []uint64{5}}, 10)
	if ok, _ := l.Agreed(); ok || l.Control != 10 {
		t.Errorf("prepared before the epoch still counts; control %d", l.Control)
	}
	l.Apply(schema.Commit{Gen: 1, RankEpoch: 4}, 11)
	if l.Next != 1 || l.Closed != 4 || l.Control != 0 {
		t.Errorf("after the commit: %+v", l)
	}
}
