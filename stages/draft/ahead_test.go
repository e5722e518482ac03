package draft

import (
	"errors"
	"slices"
	"testing"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/stages/internal/model"
	"penstock/stages/internal/reduce"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// What was let be summed is the part as long as just its batches are in that, and the gradient that it has is not refused.
func TestHeadStart(t *testing.T) {
	tr := &trainer{w: &worker.Worker{Env: &runtime.Env{}}, scratch: make(chan *model.Params, scratches)}
	last := batchOf(3)
	refuse := func(index uint32) func(o *window) {
		return func(o *window) {
			s := batchOf(index)
			s.err = errors.New("refused")
			o.waiting++
			tr.add(o, s)
		}
	}
	add := func(index uint32) func(o *window) { return func(o *window) { o.summed[index] = true } }
	for _, c := range []struct {
		name  string
		then  []func(o *window)
		alone bool // without a gradient
		want  bool
	}{
		{"just that", []func(*window){add(3)}, false, true},
		{"its batch is lost", nil, false, false},
		{"one more", []func(*window){add(3), add(4)}, false, false},
		{"one is refused that was not in it", []func(*window){refuse(4), add(3)}, false, true},
		{"its batch is refused, and another comes", []func(*window){refuse(3), add(4)}, false, false},
		{"its batch is refused, and comes again", []func(*window){refuse(3), add(3)}, false, false},
		{"nothing more", nil, true, true},
		{"what was not to come", []func(*window){add(3)}, true, false},
		{"a refusal of what was not to come", []func(*window){refuse(3)}, true, true},
	} {
		o := &window{summed: map[uint32]bool{1: true, 2: true}, head: &headStart{batches: 3, last: &last}}
		if c.alone {
			o.head = &headStart{batches: 2}
		}
		for _, f := range c.then {
			f(o)
		}
		if o.head.is(o) != c.want {
			t.Errorf("%s: the part is what was let be summed: %v", c.name, !c.want)
		}
		for len(tr.scratch) > 0 {
			<-tr.scratch
		}
	}
}

// A window's sum begins once all batches are taken, and this rank has at most the one to add that it computes.
func TestWhenAWindowsSumMayBegin(t *testing.T) {
	me, other := policy.Member{Rank: "draft-1", Incarnation: 1}, policy.Member{Rank: "draft-2", Incarnation: 2}
	for _, c := range []struct {
		name          string
		claims, added []policy.Member // of batches 0, 1, ...; no rank: none
		last          int             // that is computed
		want          bool
	}{
		{"all added, or with the others", []policy.Member{other, other, other}, []policy.Member{other, me}, -1, true},
		{"one is with nobody", []policy.Member{other, {}, other}, nil, -1, false},
		{"one waits here", []policy.Member{other, me, other}, nil, -1, false},
		{"one is computed", []policy.Member{other, me, other}, nil, 1, true},
		{"one is computed, one waits", []policy.Member{me, me, other}, nil, 1, false},
	} {
		ledger := worker.NewFollower()
		tr, seq := &trainer{w: &worker.Worker{Ledger: ledger}, me: me}, uint64(0)
		write := func(r schema.Record) { seq++; ledger.Apply(broker.Entry{Seq: seq, Record: r}) }
		write(schema.Gen{Gen: 2, Start: 5})
		write(schema.RankEpoch{Gen: 2, RankEpoch: 3, Window: 5, Members: []string{me.Rank, other.Rank}, Incarnations: []uint64{1, 2}})
		for i, m := range c.claims {
			write(schema.Claim{Batch: schema.Batch{Gen: 2, Window: 5, Index: uint32(i)}, Rank: m.Rank, Incarnation: m.Incarnation, RankEpoch: 3})
		}
		for i, m := range c.added {
			write(schema.Added{Batch: schema.Batch{Gen: 2, Window: 5, Index: uint32(i)}, Rank: m.Rank, Incarnation: m.Incarnation, RankEpoch: 3})
		}
		var last *scratch
		if c.last >= 0 {
			s := batchOf(uint32(c.last))
			last = &s
		}
		o := &window{number: 5, ids: []uint32{0, 1, 2}}
		round, members, ok := tr.allTaken(o, last)
		if want := (reduce.Round{Gen: 2, Window: 5, Epoch: 3}); ok != c.want || round != want || !slices.Equal(members, []policy.Member{me, other}) {
			t.Errorf("%s: %v, %+v of %v", c.name, ok, round, members)
		}
	}
	for name, o := range map[string]*window{"one is on its way into the part": {waiting: 1}, "it has begun": {head: &headStart{}}} {
		if new(trainer).start(t.Context(), o, nil) {
			t.Error(name)
		}
	}
}

// batchOf is a batch's gradient.
func batchOf(index uint32) scratch {
	return scratch{item: item{hop: &broker.Delivery[schema.Hop]{Record: schema.Hop{Batch: schema.Batch{Index: index}}}}}
}
