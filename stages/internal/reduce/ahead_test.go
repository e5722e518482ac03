package reduce

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/kernels/kernelstest"
)

// earlyRound is a round that members may begin to sum before they bring their parts.
type earlyRound struct {
	*crew
	Round
	parts   []Part
	totals  map[policy.Member]kernels.Tensor
	brought sync.Map
}

// fill gives every member a part.
func (c *crew) fill(r Round) *earlyRound {
	e := &earlyRound{crew: c, Round: r, totals: map[policy.Member]kernels.Tensor{}}
	for i, m := range c.members {
		c.groups[m].Withdraw()
		e.parts = append(e.parts, Part{Member: m})
		e.totals[m] = c.devices[m].Alloc(1, elements)
		part := kernels.Host(1, elements, make([]float32, elements))
		fill(part, float64(r.Window)+float64(i)/7)
		c.devices[m].Upload(c.groups[m].Part(0), part.F32)
	}
	return e
}

// sections cuts a member's part or total in three, the last first.
func sections(t kernels.Tensor) (cut []kernels.Tensor) {
	column := t.Reshape(t.Len(), 1)
	for _, at := range [][2]int{{elements - 5, elements}, {7, elements - 5}, {0, 7}} {
		cut = append(cut, column.RowRange(at[0], at[1]).Reshape(1, at[1]-at[0]))
	}
	return cut
}

// begin has a member begin with so many sections, and says whether it could.
func (e *earlyRound) begin(m policy.Member, ready int) bool {
	ok := e.groups[m].Begin(e.t.Context(), e.Round, e.parts, sections(e.totals[m]))
	e.give(m, 0, ready)
	return ok
}

// give has sections of a member be ready.
func (e *earlyRound) give(m policy.Member, from, to int) {
	into, part := sections(e.totals[m]), sections(e.groups[m].Part(0))
	for i := from; i < to; i++ {
		e.devices[m].Copy(into[i], part[i])
		e.groups[m].Ready()
	}
}

// bring has a member bring its part, unless it has.
func (e *earlyRound) bring(m policy.Member) error {
	if _, ok := e.brought.LoadOrStore(m, true); ok {
		return nil
	}
	return e.groups[m].Bring(e.Round, 0, []byte("note of "+m.Rank))
}

// sum has the members bring their parts, those that have not, each just before it sums.
func (e *earlyRound) sum(ctx context.Context, members ...policy.Member) []outcome {
	outcomes := make([]outcome, len(members))
	var wait sync.WaitGroup
	for i, m := range members {
		wait.Go(func() {
			err := e.bring(m)
			var notes [][]byte
			if err == nil {
				notes, err = e.groups[m].Sum(ctx, e.Round, e.parts, e.totals[m])
			}
			outcomes[i] = outcome{e.devices[m].at(e.totals[m]), notes, err}
		})
	}
	wait.Wait()
	return outcomes
}

// check holds that all members get what is due.
func (e *earlyRound) check(t interface{ Fatalf(string, ...any) }) {
	want := make([]float32, elements)
	for _, m := range e.members {
		for k, v := range e.devices[m].at(e.groups[m].Part(0)) {
			want[k] += v
		}
	}
	for i, o := range e.sum(context.Background(), e.members...) {
		if o.err != nil || !slices.Equal(o.total, want) || len(o.notes) != len(e.members) {
			t.Fatalf("%+v: %s gets %v, %v; want %v", e.Round, e.members[i].Rank, o.total[:3], o.err, want[:3])
		}
	}
}

// Sections that every member has ready are summed before any part is brought, those that one lacks are not; and the sum stands.
func TestASumThatBeginsEarly(t *testing.T) {
	c := assemble(t, 3)
	defer c.disband()
	c.round(Round{1, 0, 2})
	e := c.fill(Round{1, 1, 2})
	sums := c.ex.State().Sums
	slow := c.peers[c.members[2]]
	looks := make(chan bool, 4) // at its marks, while none is reached
	c.ex.Hold(slow, true)
	c.ex.Fail(func(p kernels.Peer, step string) error {
		if p == slow && step == "mark" {
			select {
			case looks <- true:
			default:
			}
		}
		return nil
	})
	for i, m := range c.members {
		if !e.begin(m, 2+i%2) { // the second has all three
			t.Fatalf("%s does not begin", m.Rank)
		}
	}
	for range cap(looks) {
		<-looks
	}
	c.ex.Hold(slow, false)
	if err := c.ex.Await(t.Context(), func(s kernelstest.Exchanged) bool { return s.Sums == sums+2 }); err != nil {
		t.Fatal(err)
	}
	e.bringOne(1)
	e.give(c.members[0], 2, 3)
	e.bringOne(0)
	e.give(c.members[2], 2, 3) // when the others have brought
	e.check(t)
	if s := c.ex.State(); s.Sums != sums+3 || s.Open != 3 {
		t.Errorf("%+v, want %d sums", s, sums+3)
	}
	c.round(Round{1, 2, 2})
	c.disband()
	if !strings.Contains(c.log.String(), "sums=3 early=1") {
		t.Errorf("log: %s", c.log.String())
	}
}

func TestWhenNoSumBegins(t *testing.T) {
	c := assemble(t, 2)
	defer c.disband()
	m := c.members[0]
	if c.fill(Round{1, 0, 2}).begin(m, 0) {
		t.Error("before there is a communicator")
	}
	c.round(Round{1, 0, 2})
	if c.fill(Round{1, 1, 3}).begin(m, 0) || c.fill(Round{2, 1, 2}).begin(m, 0) {
		t.Error("in another epoch than the communicator's")
	}
	e := c.fill(Round{1, 1, 2})
	if c.groups[m].Begin(t.Context(), e.Round, e.parts, make([]kernels.Tensor, mostSections+1)) {
		t.Error("in more sections than a word counts")
	}
	if !e.begin(m, 3) || e.begin(m, 0) {
		t.Error("not at all, or twice")
	}
	c.groups[m].leave()
	e.check(t)
	if c.fill(Round{1, 2, 2}).begin(m, 0) {
		t.Error("after a round through the host")
	}
}

// What is not what the parts are in the end is summed anew, on the devices; what fails, through the host.
func TestASumThatBeginsInVain(t *testing.T) {
	for name, f := range map[string]struct {
		spoil func(e *earlyRound)
		host  bool
		lacks int // sections, of one member
	}{
		"one part is another":            {spoil: func(e *earlyRound) { e.another(1) }},
		"one lacks a section":            {lacks: 1},
		"the round is taken back":        {spoil: func(e *earlyRound) { e.groups[e.members[0]].Withdraw() }, host: true},
		"a device fails":                 {spoil: func(e *earlyRound) { e.fail(1, "mark"); e.vacated() }, host: true},
		"the library fails at the end":   {spoil: func(e *earlyRound) { e.fail(2, "sum") }, host: true},
		"one has left the communicator":  {spoil: func(e *earlyRound) { e.groups[e.members[0]].leave(); e.vacated() }, host: true},
		"one is barred and has laid out": {spoil: func(e *earlyRound) { e.groups[e.members[1]].leave(); e.bringOne(1) }, host: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := assemble(t, 3)
			defer c.disband()
			c.round(Round{1, 0, 2})
			e := c.fill(Round{1, 1, 2})
			for i, m := range c.members {
				c.ex.Hold(c.peers[m], true)
				e.begin(m, 3-i%2*f.lacks)
			}
			if f.spoil != nil {
				f.spoil(e)
			}
			for _, m := range c.members {
				c.ex.Hold(c.peers[m], false)
			}
			e.check(t)
			if s := c.ex.State(); (s.Open == 0) != f.host || strings.Contains(c.log.String(), "host memory") != f.host {
				t.Errorf("%+v, log %s", s, c.log.String())
			}
			c.ex.Fail(nil)
			c.round(Round{1, 2, 3})
			if s := c.ex.State(); s.Open != 3 {
				t.Errorf("in the next epoch: %+v", s)
			}
		})
	}
}

// A member that tells what it has ready and is frozen before it sums leaves the others' devices waiting for it. When it dies they are
// free of it, wherever they are.
func TestAMemberThatTellsAndDies(t *testing.T) {
	for name, brings := range map[string]bool{"while they compute": false, "when they bring": true} {
		t.Run(name, func(t *testing.T) {
			c := assemble(t, 3)
			defer c.disband()
			c.round(Round{1, 0, 2})
			e := c.fill(Round{1, 1, 2})
			frozen, present := c.members[2], slices.Clone(c.members[:2])
			c.groups[frozen].slab.SetGeneration(0, uint64(e.word(early, 3)))
			for _, m := range present {
				e.begin(m, 3)
			}
			if err := c.ex.Await(t.Context(), func(s kernelstest.Exchanged) bool { return s.Waiting == 2 }); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			over := errors.New("the rank epoch is over")
			outcomes := make(chan []outcome, 1)
			sum := func() { outcomes <- e.sum(ctx, present...) }
			if brings {
				go sum()
			}
			if err := c.groups[frozen].Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.ex.Await(t.Context(), func(s kernelstest.Exchanged) bool { return s.Open == 0 }); err != nil {
				t.Fatal(err)
			}
			if !brings {
				go sum()
			}
			cancel(over)
			for i, o := range <-outcomes {
				if !errors.Is(o.err, over) {
					t.Errorf("%s: %v", present[i].Rank, o.err)
				}
			}
			delete(c.groups, frozen)
			c.members = present
			c.round(Round{1, 1, 3})
			if s := c.ex.State(); s.Open != 2 {
				t.Errorf("in the next epoch: %+v", s)
			}
		})
	}
}

// A ctx that ends, as with a rank epoch, frees a member whose mark is never reached, before it brings its part.
func TestAnEarlySumEndsWithItsContext(t *testing.T) {
	c := assemble(t, 2)
	defer c.disband()
	c.round(Round{1, 0, 2})
	e, m := c.fill(Round{1, 1, 2}), c.members[0]
	c.ex.Hold(c.peers[m], true)
	ctx, cancel := context.WithCancel(t.Context())
	if !c.groups[m].Begin(ctx, e.Round, e.parts, sections(e.totals[m])) {
		t.Fatal("it does not begin")
	}
	c.groups[m].Ready()
	cancel()
	if err := c.groups[m].Bring(e.Round, 0, []byte("x")); err != nil {
		t.Error(err)
	}
	c.ex.Hold(c.peers[m], false)
	c.round(Round{1, 1, 3})
	if s := c.ex.State(); s.Open != 2 {
		t.Errorf("in the next epoch: %+v", s)
	}
}

func (e *earlyRound) fail(member int, at string) {
	culprit := e.peers[e.members[member]]
	e.ex.Fail(func(p kernels.Peer, step string) error {
		if p == culprit && step == at {
			return errors.New("broken")
		}
		return nil
	})
}

func (e *earlyRound) bringOne(member int) {
	if err := e.bring(e.members[member]); err != nil {
		e.t.Error(err)
	}
}

// another makes a member's part another than it has let be summed.
func (e *earlyRound) another(member int) {
	m := e.members[member]
	e.devices[m].Add(e.groups[m].Part(0), e.groups[m].Part(0))
	e.groups[m].Void()
}

// vacated waits until nobody is in the communicator any more.
func (e *earlyRound) vacated() {
	if err := e.ex.Await(e.t.Context(), func(s kernelstest.Exchanged) bool { return s.Open == 0 }); err != nil {
		e.t.Error(err)
	}
}

// Whatever each member lets begin, and whatever fails: members that sum get the same sum, a ctx that ends ends every Sum, and in
// the next epoch all is well.
func TestNoEarlySumHangs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := assemble(t, rapid.IntRange(2, 3).Draw(rt, "ranks"))
		defer c.disband()
		r := Round{1, 0, 1}
		c.round(r)
		for range rapid.IntRange(1, 5).Draw(rt, "rounds") {
			r.Window++
			e := c.fill(r)
			for i, m := range c.members {
				ready := rapid.IntRange(-1, 3).Draw(rt, "ready")
				held := rapid.Bool().Draw(rt, "held")
				c.ex.Hold(c.peers[m], held)
				if ready < 0 {
					continue
				}
				e.begin(m, ready)
				if rapid.Bool().Draw(rt, "void") {
					e.another(i)
				}
			}
			step := rapid.SampledFrom([]string{"", "", "mark", "join", "sum"}).Draw(rt, "fails at")
			e.fail(rapid.IntRange(0, len(c.members)-1).Draw(rt, "culprit"), step)
			for _, m := range c.members {
				c.ex.Hold(c.peers[m], false)
			}
			if rapid.Bool().Draw(rt, "given up") {
				absent := rapid.IntRange(0, len(c.members)-1).Draw(rt, "absent")
				present := slices.Delete(slices.Clone(c.members), absent, absent+1)
				ctx, cancel := context.WithCancelCause(t.Context())
				over := errors.New("the rank epoch is over")
				go cancel(over)
				for i, o := range e.sum(ctx, present...) {
					if !errors.Is(o.err, over) {
						rt.Fatalf("%s in %+v without %d: %v", present[i].Rank, r, absent, o.err)
					}
				}
				r.Epoch++
			} else {
				e.check(rt)
			}
			if rapid.Bool().Draw(rt, "another epoch") {
				r.Epoch++
				r.Window++
				c.ex.Fail(nil)
				c.round(r)
			}
		}
		c.ex.Fail(nil)
		c.round(Round{1, r.Window + 1, r.Epoch + 1})
		if s := c.ex.State(); s.Open != len(c.members) {
			rt.Fatalf("in the next epoch: %+v", s)
		}
	})
}

// Whenever in an early round a member dies, no Sum gives anything, a ctx that ends ends each, and those that are left go on, with
// another process of it.
func TestDeathsInAnEarlyRound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := assemble(t, rapid.IntRange(2, 3).Draw(rt, "ranks"))
		defer c.disband()
		r := Round{1, 0, 1}
		for range rapid.IntRange(1, 3).Draw(rt, "deaths") {
			c.round(r)
			r.Window++
			e := c.fill(r)
			victim := c.members[rapid.IntRange(0, len(c.members)-1).Draw(rt, "victim")]
			peer := c.peers[victim]
			present := slices.DeleteFunc(slices.Clone(c.members), func(m policy.Member) bool { return m == victim })
			die := func() {
				if err := c.groups[victim].Close(); err != nil {
					rt.Fatal(err)
				}
			}
			at := rapid.SampledFrom([]string{"before it begins", "early", "held", "while others sum", "brought"}).Draw(rt, "dies")
			if at == "before it begins" {
				die()
			}
			for _, m := range c.members {
				c.ex.Hold(c.peers[m], rapid.Bool().Draw(rt, "held"))
				if ready := rapid.IntRange(-1, 3).Draw(rt, "ready"); ready >= 0 && !(m == victim && at == "before it begins") {
					e.begin(m, ready)
				}
			}
			if at == "held" {
				die()
			}
			for _, m := range c.members {
				c.ex.Hold(c.peers[m], false)
			}
			if at == "early" {
				die()
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			over := errors.New("the rank epoch is over")
			go func() {
				switch at {
				case "brought":
					if err := c.groups[victim].Bring(r, 0, nil); err != nil {
						t.Error(err)
					}
					die()
				case "while others sum":
					die()
				}
				cancel(over)
			}()
			for i, o := range e.sum(ctx, present...) {
				if !errors.Is(o.err, over) {
					rt.Fatalf("%s in %+v: %v, %v", present[i].Rank, r, o.total, o.err)
				}
			}
			<-ctx.Done()
			delete(c.groups, victim)
			c.members = present
			r.Epoch++
			if rapid.Bool().Draw(rt, "alone for a window") && len(present) == 1 {
				r.Window++
				c.groups[present[0]].Withdraw()
			}
			c.enlist(victim.Rank, peer)
		}
		r.Epoch++
		c.round(r)
		if s := c.ex.State(); s.Open != len(c.members) {
			rt.Fatalf("in the next epoch: %+v", s)
		}
	})
}

// A word tells its round, its stage and its count, and is none of another round.
func TestWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Round {
			return Round{rapid.Uint32().Draw(t, name), rapid.Uint32().Draw(t, name), rapid.Uint32().Draw(t, name)}
		}
		r, other := draw("round"), draw("other")
		s, n := stage(rapid.IntRange(int(laid), int(summed)).Draw(t, "stage")), rapid.IntRange(0, mostSections).Draw(t, "sections")
		w := r.word(s, n)
		if at, count := w.at(r); at != s || count != n {
			t.Errorf("%+v: stage %d of %d, %d sections of %d", r, at, s, count, n)
		}
		if at, _ := w.at(other); other != r && at != 0 {
			t.Errorf("%+v and %+v have the same word", r, other)
		}
	})
}
