package modeltest

import (
	"fmt"

	"penstock/schema"
)

var groupSteps = []step{
	{"rank is prepared", false, (*Model).preparable, (*Model).prepare},
	{"rank reduces", false, (*Model).reducible, (*Model).reduce},
	{"rank writes the commit", false, (*Model).committable, (*Model).commit},
	{"rank reads the commit and steps", false, (*Model).committed, (*Model).readCommit},
	{"rank steps without the commit", false, (*Model).eager, (*Model).stepEarly},
	{"supervisor writes a rank epoch", false, (*Model).bereaved, (*Model).writeEpoch},
	{"rank reads the epoch", false, (*Model).behindEpoch, (*Model).readEpoch},
	{"rank joins", false, (*Model).joinable, (*Model).join},
	{"rank acknowledges the committed roots", false, (*Model).ackable, (*Model).ackRoots},
}

// form writes the rank epoch with the given members; a single rank needs none.
func (m *Model) form(s *State, members uint8) {
	if m.Ranks == 1 {
		return
	}
	e := schema.RankEpoch{Gen: uint32(s.gen), Window: uint32(s.led.window), RankEpoch: uint32(s.led.epoch) + 1}
	for r := range s.ranks {
		if members&(1<<r) != 0 {
			e.Members = append(e.Members, rankName(uint8(r)))
			e.Incarnations = append(e.Incarnations, owner(uint8(r), s.ranks[r].inc))
		}
	}
	s.led = m.write(s.led, e)
}

// each calls add for the members that hold cond.
func (m *Model) each(s *State, add func(a, b int), cond func(r *rank) bool) {
	for r := range s.ranks {
		if m.member(s, r) && cond(&s.ranks[r]) {
			add(r, 0)
		}
	}
}

// current reports whether a rank knows the epoch in force and sums the open window.
func (s *State) current(r *rank) bool { return r.epoch == s.led.epoch && r.window == s.led.window }

func (m *Model) preparable(s *State, add func(a, b int)) {
	_, _, complete := s.led.lineage.Complete(s.led.lineage.Next, m.planned(s.led.window))
	if !complete || int(s.led.window) >= len(m.Plan) {
		return
	}
	m.each(s, add, func(r *rank) bool { return r.phase == working && s.current(r) })
}

func (m *Model) prepare(s *State, r, _ int) error {
	s.ranks[r].phase = prepared
	if m.Ranks == 1 {
		return m.reduce(s, r, 0)
	}
	return nil
}

// group calls f for every member, dead or alive, and reports whether it held for each.
func (m *Model) group(s *State, f func(r int, k *rank) bool) bool {
	for r := range s.ranks {
		if (m.Ranks == 1 || s.led.members&(1<<r) != 0) && !f(r, &s.ranks[r]) {
			return false
		}
	}
	return true
}

// reducible: the reduction needs every member, alive, in the same window and epoch.
func (m *Model) reducible(s *State, add func(a, b int)) {
	ready := m.group(s, func(_ int, k *rank) bool { return k.up && k.phase >= prepared && s.current(k) })
	if ready {
		m.each(s, add, func(r *rank) bool { return r.phase == prepared })
	}
}

// reduce sums over the members into a second buffer, and says so on the ledger.
func (m *Model) reduce(s *State, r, _ int) error {
	total, twice := uint64(0), uint64(0)
	m.group(s, func(_ int, k *rank) bool {
		twice |= total & k.sum
		total |= k.sum
		return true
	})
	if twice != 0 {
		return fmt.Errorf("batches %b are in the sums of two members", twice)
	}
	k := &s.ranks[r]
	k.total, k.phase = total, reduced
	if m.Ranks > 1 {
		s.led = m.write(s.led, schema.Prepared{Gen: uint32(s.gen), Window: uint32(k.window), Rank: rankName(uint8(r)),
			Incarnation: owner(uint8(r), k.inc), RankEpoch: uint32(k.epoch), Hash: total})
	}
	return nil
}

// committable: every member has prepared; the record competes with the next epoch's.
func (m *Model) committable(s *State, add func(a, b int)) {
	for r := range s.ranks {
		k := &s.ranks[r]
		if !k.up || k.phase != reduced || k.window != s.led.window {
			continue
		}
		if k.epoch == s.led.epoch && s.led.agreed || k.epoch < s.led.epoch && m.without(FirstControlWins) {
			add(r, 0)
		}
	}
}

func (m *Model) commit(s *State, r, _ int) error {
	added, dead, complete := s.led.lineage.Complete(s.led.lineage.Next, m.planned(s.led.window))
	if !complete {
		return fmt.Errorf("rank %d commits a window that an epoch has made incomplete", r)
	}
	sum := uint64(0)
	for _, b := range added {
		sum |= bit(uint8(b))
	}
	if got := s.ranks[r].total; got != sum {
		return fmt.Errorf("rank %d commits batches %b with the sum of %b", r, sum, got)
	}
	s.led = m.write(s.led, schema.Commit{Gen: uint32(s.gen), Window: uint32(s.led.window), RankEpoch: uint32(s.ranks[r].epoch), Batches: added, Dead: dead})
	s.moved = 0
	return nil
}

func (m *Model) committed(s *State, add func(a, b int)) {
	m.each(s, add, func(r *rank) bool {
		return r.window < s.led.window && (r.phase == reduced || m.teacher(s) >= 0)
	})
}

// teacher is a member that has stepped on all that is committed, -1 if there is none.
func (m *Model) teacher(s *State) int {
	for r := range s.ranks {
		if m.member(s, r) && s.ranks[r].window == s.led.window {
			return r
		}
	}
	return -1
}

// readCommit steps with the reduced sum; a rank that has none takes the weights of one that has stepped.
func (m *Model) readCommit(s *State, r, _ int) error {
	k := &s.ranks[r]
	if k.phase != reduced {
		k.weights, k.window = s.ranks[m.teacher(s)].weights, s.led.window
		k.sum, k.total, k.phase = 0, 0, working
		return nil
	}
	return m.stepOn(s, r)
}

func (m *Model) stepOn(s *State, r int) error {
	k := &s.ranks[r]
	if k.weights&k.total != 0 {
		return fmt.Errorf("rank %d trains batches %b twice", r, k.weights&k.total)
	}
	k.weights |= k.total
	k.window++
	k.sum, k.total, k.phase = 0, 0, working
	return nil
}

func (m *Model) eager(s *State, add func(a, b int)) {
	if m.without(StepAfterCommit) {
		m.each(s, add, func(r *rank) bool { return r.phase == reduced && s.current(r) })
	}
}

func (m *Model) stepEarly(s *State, r, _ int) error { return m.stepOn(s, r) }

// bereaved: a member is dead and another alive.
func (m *Model) bereaved(s *State, add func(a, b int)) {
	dead, alive := false, false
	for r := range s.ranks {
		if s.led.members&(1<<r) != 0 {
			dead = dead || !s.ranks[r].up
			alive = alive || s.ranks[r].up
		}
	}
	if dead && alive && int(s.led.window) < len(m.Plan) {
		add(0, 0)
	}
}

// writeEpoch leaves the dead out. What they claimed or added is to be done again.
func (m *Model) writeEpoch(s *State, _, _ int) error {
	alive := uint8(0)
	for r := range s.ranks {
		k := &s.ranks[r]
		if s.led.members&(1<<r) != 0 && k.up {
			alive |= 1 << r
			if k.window > s.led.window {
				return fmt.Errorf("rank %d has stepped on window %d, and an epoch came before its commit: it is trained again", r, s.led.window)
			}
		}
	}
	before, _ := m.lowest(s)
	m.form(s, alive)
	if after, ok := m.lowest(s); ok && m.InOrder && after != before && !m.without(FreeWhenMovedBack) {
		s.moved = 1<<len(m.pools) - 1
	}
	return nil
}

func (m *Model) behindEpoch(s *State, add func(a, b int)) {
	m.each(s, add, func(r *rank) bool {
		return r.epoch < s.led.epoch && r.window == s.led.window && !(m.without(FirstControlWins) && r.phase == reduced)
	})
}

// readEpoch discards the reduced sum and keeps the rank's own.
func (m *Model) readEpoch(s *State, r, _ int) error {
	k := &s.ranks[r]
	k.epoch, k.phase, k.total = s.led.epoch, working, 0
	return nil
}

func (m *Model) joinable(s *State, add func(a, b int)) {
	for r := range s.ranks {
		if s.led.members&(1<<r) == 0 && !s.ranks[r].up && m.Ranks > 1 && m.teacher(s) >= 0 && int(s.led.window) < len(m.Plan) {
			add(r, 0)
		}
	}
}

// join starts a dead rank's successor with a survivor's weights.
func (m *Model) join(s *State, r, _ int) error {
	k := &s.ranks[r]
	inc := k.inc + 1
	if m.without(MembersAreNew) {
		inc = k.inc
	}
	*k = rank{up: true, inc: inc, window: s.led.window, weights: s.ranks[m.teacher(s)].weights}
	m.form(s, s.led.members|1<<r)
	k.epoch = s.led.epoch
	return nil
}

func (m *Model) ackable(s *State, add func(a, b int)) {
	for k := range s.ranks {
		if m.member(s, k) {
			for _, r := range s.roots {
				if m.past(s, k, r) {
					add(k, 0)
					return
				}
			}
		}
	}
}

// past reports whether a rank has stepped on the window of a root.
func (m *Model) past(s *State, k int, r root) bool {
	return r.gen == s.gen && m.batches[r.batch].window < min(s.led.window, s.ranks[k].window)
}

// ackRoots settles the roots of committed batches.
func (m *Model) ackRoots(s *State, k, _ int) error {
	kept := s.roots[:0]
	for _, r := range s.roots {
		if !m.past(s, k, r) {
			kept = append(kept, r)
		}
	}
	s.roots = kept
	return nil
}
