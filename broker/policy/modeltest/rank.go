package modeltest

import (
	"fmt"

	"penstock/broker/policy"
	"penstock/schema"
)

var rankSteps = []step{
	{"rank receives hop", false, (*Model).trainArrivals, (*Model).park},
	{"rank claims hop", false, (*Model).claimable, (*Model).claim},
	{"rank has copied hop", false, (*Model).reading, (*Model).copied},
	{"rank adds hop", false, (*Model).addable, (*Model).add},
	{"rank alone is refused hop", false, (*Model).refused, (*Model).startAgain},
}

// member reports whether a rank is alive and in the group.
func (m *Model) member(s *State, r int) bool {
	return s.ranks[r].up && (m.Ranks == 1 || s.led.members&(1<<r) != 0)
}

func (m *Model) trainArrivals(s *State, add func(a, b int)) {
	for r := range m.Ranks {
		if m.Grain.Train && m.member(s, r) && !(m.without(ParkUntilOpen) && s.holds(trainEdge, r)) {
			m.arrivals(s, trainEdge, func(i int) { add(r, i) })
		}
	}
}

// opened reports whether a rank may look at a hop: its window is the one that the rank sums, or for a rank alone the one
// behind it, or it is old.
func (m *Model) opened(s *State, r int, h hop) bool {
	w := m.batches[h.batch].window
	return m.unneeded(s, h) || (w == s.led.window || m.Ranks == 1 && w == s.led.window+1) && s.led.window == s.ranks[r].window
}

// claimable lists the hops that a rank can claim or drop: those it holds, or, where receiving is no step, those queued.
func (m *Model) claimable(s *State, add func(a, b int)) {
	for r := 0; r < m.Ranks && !m.Grain.Train; r++ {
		if m.member(s, r) {
			m.arrivals(s, trainEdge, func(i int) {
				if m.ripe(s, r, s.hops[i]) {
					add(r, i)
				}
			})
		}
	}
	for i, h := range s.hops {
		if h.edge == trainEdge && h.state == hopHeld && m.ripe(s, int(h.holder), h) {
			add(int(h.holder), i)
		}
	}
}

// settlers is how many hops a rank may have released and not acknowledged before it claims another.
const settlers = 2

// ripe reports whether a rank needs to park a hop no longer.
func (m *Model) ripe(s *State, r int, h hop) bool {
	k, unsettled := &s.ranks[r], 0
	for _, x := range s.hops {
		if x.edge != trainEdge || int(x.holder) != r {
			continue
		}
		if x.batch == h.batch && (x.state == hopReading || x.state == hopCopied) {
			return false // another delivery of the batch is in work here
		}
		if x.state >= hopSettling {
			unsettled++
		}
	}
	if unsettled >= settlers {
		return false
	}
	busy := s.led.lineage.Busy(m.seen(s, h.batch, h.gen), owner(uint8(r), k.inc))
	return m.opened(s, r, h) && m.hasBuffer(s, r, h.batch) && (!busy || m.without(CompareAndSet))
}

// hasBuffer reports whether a rank may copy a batch: if it adds in plan order, the last is for the lowest index.
func (m *Model) hasBuffer(s *State, r int, b uint8) bool {
	if m.Buffers == 0 {
		return true
	}
	free := m.Buffers
	for _, h := range s.hops {
		if h.edge == trainEdge && int(h.holder) == r && (h.state == hopReading || h.state == hopCopied) {
			free--
		}
	}
	return m.admits(s, b, free, ReserveBuffer)
}

// claim makes a batch the rank's and begins to copy its features, or drops a hop that needs no work.
func (m *Model) claim(s *State, r, i int) error {
	h := &s.hops[i]
	h.holder = uint8(r)
	rk := s.ranks[r]
	unread := m.without(CompareAndSet) && !m.stale(s, h.batch, h.gen) && rk.sum&bit(h.batch) == 0
	if m.unneeded(s, *h) && !unread { // unread: what another rank has written
		return m.drop(s, i)
	}
	st := s.status(m, h.batch)
	mine := st.State == policy.Claimed && st.Owner == owner(uint8(r), rk.inc)
	if !mine && !m.without(ClaimBeforeWork) {
		m.append(s, h.batch, h.gen, m.claimed(h, uint8(r), &rk))
	}
	h.claim, h.state = 1, hopReading
	if m.Grain.Reads && h.ref.match != stale && h.ref.match != gone {
		return nil
	}
	return m.copied(s, r, i)
}

// claimed is a rank's claim on a hop's batch.
func (m *Model) claimed(h *hop, r uint8, rk *rank) schema.Claim {
	return schema.Claim{Batch: m.named(h.batch, h.gen), Rank: rankName(r), Incarnation: owner(r, rk.inc), RankEpoch: uint32(rk.epoch)}
}

// giveBack ends a claim whose work is given up, so that no other rank waits for it.
func (m *Model) giveBack(s *State, r, i int) {
	h := &s.hops[i]
	if h.claim == 1 && m.Ranks > 1 && !m.without(GiveBackClaims) {
		m.append(s, h.batch, h.gen, schema.Claim{Batch: m.named(h.batch, h.gen)})
	}
	h.claim = 0
}

func (m *Model) reading(s *State, add func(a, b int)) {
	for i, h := range s.hops {
		if h.edge == trainEdge && h.state == hopReading {
			add(int(h.holder), i)
		}
	}
}

// copied keeps the copy if the packer's slot was in the same use throughout.
func (m *Model) copied(s *State, r, i int) error {
	h := &s.hops[i]
	if h.ref.match == torn || m.Grain.Reads && m.without(RankChecksAfterCopy) && h.ref.match == stale && h.claim == 1 {
		return fmt.Errorf("rank %d takes batch %d from a slot that was overwritten while it read", r, h.batch)
	}
	if h.ref.match != fresh && !(m.Grain.Reads && m.without(RankChecksAfterCopy) && h.ref.match == stale) {
		m.giveBack(s, r, i)
		return m.drop(s, i)
	}
	h.state = hopCopied
	return nil
}

// addable lists what a rank has computed of the open window: if it adds in order, only the lowest index.
func (m *Model) addable(s *State, add func(a, b int)) {
	lowest, ok := m.lowest(s)
	for i, h := range s.hops {
		if h.edge != trainEdge || h.state != hopCopied {
			continue
		}
		w := m.batches[h.batch].window
		mayAdd := w == s.led.window && w == s.ranks[h.holder].window || w > s.led.window && m.without(AddBehindCommit)
		turn := mayAdd && (!m.InOrder || ok && uint32(h.batch) == lowest)
		if turn || m.settledBatch(s, h.batch, h.gen) {
			add(int(h.holder), i)
		}
	}
}

// add writes the addition and sums the gradient; if the claim is not the last record any more, it drops both. A rank alone
// has summed already: it claims the batch once more, whose other features somebody found bad.
func (m *Model) add(s *State, r, i int) error {
	h := &s.hops[i]
	rk := &s.ranks[r]
	if h.claim == 0 && m.Ranks == 1 && !m.settledBatch(s, h.batch, h.gen) {
		m.append(s, h.batch, h.gen, m.claimed(h, uint8(r), rk))
		h.claim = 1
	}
	mine := h.claim == 1 || m.without(CompareAndSet)
	h.claim = 0
	if !mine || m.stale(s, h.batch, h.gen) {
		return m.drop(s, i)
	}
	if rk.sum&bit(h.batch) != 0 {
		return fmt.Errorf("rank %d adds batch %d twice to its sum", r, h.batch)
	}
	rk.sum |= bit(h.batch)
	b := h.batch
	m.append(s, b, h.gen, m.added(s, b, h.gen, uint8(r), rk.inc, rk.epoch))
	if m.without(AckAfterCommit) {
		m.settleRoot(s, b)
	}
	return m.finish(s, i)
}

// refused lists the dead batches that may be in the sum of a rank alone: it looks before it sums, and somebody may write
// between that and the addition.
func (m *Model) refused(s *State, add func(a, b int)) {
	for i, h := range s.hops {
		if m.Ranks == 1 && h.edge == trainEdge && h.state == hopCopied && h.gen == s.gen && m.batches[h.batch].window == s.led.window &&
			s.status(m, h.batch).State == policy.Dead {
			add(int(h.holder), i)
		}
	}
}

// startAgain gives up the rank's weights; a new generation follows.
func (m *Model) startAgain(s *State, r, _ int) error {
	s.ranks[r] = rank{inc: s.ranks[r].inc}
	s.requeue(trainEdge, r)
	return nil
}

// settleRoot acknowledges a batch's root.
func (m *Model) settleRoot(s *State, b uint8) {
	for i, r := range s.roots {
		if r.batch == b && r.gen == s.gen {
			s.roots = append(s.roots[:i], s.roots[i+1:]...)
			return
		}
	}
}

// reject asks for a batch's features again, or the second time declares it dead.
func (m *Model) reject(s *State, o, i int) error {
	s.faults.Bad--
	h := &s.hops[i]
	m.slotsOf(s, o)[h.own] = use{}
	h.own = 0
	b := m.named(h.batch, h.gen)
	verdict, _ := s.led.lineage.Judge(m.seen(s, h.batch, h.gen))
	switch id := h.batch; verdict {
	case policy.Redo:
		m.append(s, id, h.gen, schema.Suspect{Batch: b})
		for k := range s.roots {
			if s.roots[k].batch == id && s.roots[k].gen == s.gen {
				s.roots[k].state = rootBack
			}
		}
	case policy.Declare:
		m.append(s, id, h.gen, schema.Dead{Batch: b})
		if m.settledBatch(s, id, s.gen) {
			s.dead |= bit(id)
		}
		m.settleRoot(s, id)
	}
	return m.finish(s, i)
}
