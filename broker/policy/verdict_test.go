package policy

import (
	"testing"

	"penstock/schema"
)

func TestJudge(t *testing.T) {
	var l Lineage
	seq := uint64(0)
	apply := func(r schema.Record) { seq++; l.Apply(r, seq) }
	apply(schema.Gen{Gen: 2})
	want := func(b schema.Batch, v Verdict, after uint64, settled bool) {
		t.Helper()
		if got, seq := l.Judge(b); got != v || seq != after {
			t.Errorf("batch %d: verdict %v after %d, want %v after %d", b.Index, got, seq, v, after)
		}
		if got := l.Settled(b); got != settled {
			t.Errorf("batch %d settled: %v", b.Index, got)
		}
	}
	want(batch(2, 0, 0), Redo, 0, false)
	want(batch(1, 0, 0), Ignore, 0, true)
	apply(schema.Suspect{Batch: batch(2, 0, 0), Reason: "not finite"})
	want(batch(2, 0, 0), Declare, 2, false)
	apply(schema.Dead{Batch: batch(2, 0, 0), Reason: "not finite"})
	want(batch(2, 0, 0), Ignore, 3, true)
	apply(schema.Added{Batch: batch(2, 0, 1), Rank: "draft-1"})
	want(batch(2, 0, 1), Ignore, 4, true)
	apply(schema.Commit{Gen: 2, Window: 0})
	want(batch(2, 0, 5), Ignore, 0, true)
}

func TestReserveFor(t *testing.T) {
	var l Lineage
	l.Apply(schema.Gen{Gen: 1, Start: 3}, 1)
	if r := ReserveFor(&l); r != (Reserve{Oldest: 3}) {
		t.Errorf("%+v", r)
	}
}
