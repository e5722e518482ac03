package modeltest

var crashSteps = []step{
	{"builder dies", true, (*Model).builderAlive, (*Model).killBuilder},
	{"owner dies and restarts", true, (*Model).ownersAlive, (*Model).killOwner},
	{"rank dies", true, (*Model).ranksAlive, (*Model).killRank},
}

var generationSteps = []step{
	{"rank saves a checkpoint", false, (*Model).savable, (*Model).save},
	{"rank opens a generation", false, (*Model).orphaned, (*Model).openGeneration},
	{"a dead rank's addition arrives", false, (*Model).lateRecord, (*Model).storeLate},
	{"a dead rank's acknowledgement arrives", false, (*Model).lateAck, (*Model).takeLateAck},
}

func (m *Model) builderAlive(s *State, add func(a, b int)) {
	if s.faults.Builder > 0 && s.builder == s.gen {
		add(0, 0)
	}
}

func (m *Model) killBuilder(s *State, _, _ int) error {
	s.faults.Builder--
	s.builder, s.sent = 0, 0
	return nil
}

func (m *Model) ownersAlive(s *State, add func(a, b int)) {
	for o := range m.pools {
		if s.entered[o] == s.gen && (o < m.Targets && s.faults.Target > 0 || o >= m.Targets && s.faults.Packer > 0) {
			add(o, 0)
		}
	}
}

// killOwner takes an owner's memory away. Its successor, with another incarnation, has every slot free.
func (m *Model) killOwner(s *State, o, _ int) error {
	if o < m.Targets {
		s.faults.Target--
	} else {
		s.faults.Packer--
		s.requeue(packEdge, o)
	}
	for i := range m.slotsOf(s, o) {
		m.slotsOf(s, o)[i] = use{}
	}
	for i := range s.hops {
		s.hops[i].ref.die(uint8(o))
	}
	for i := range s.rels {
		s.rels[i].die(uint8(o))
	}
	return nil
}

func (r *ref) die(o uint8) {
	if r.owner == o {
		r.match = gone
	}
}

// requeue lets go of a dead process's hops. What it had acknowledged is gone.
func (s *State) requeue(edge uint8, holder int) {
	kept := s.hops[:0]
	for _, h := range s.hops {
		if h.edge == edge && h.state > hopReturned && int(h.holder) == holder {
			if h.state == hopForgot {
				continue
			}
			h.state, h.holder, h.own, h.claim = hopQueued, 0, 0, 0
		}
		kept = append(kept, h)
	}
	s.hops = kept
}

// ranksAlive lists each rank, and for each the additions and acknowledgements that may survive it on the wire.
func (m *Model) ranksAlive(s *State, add func(a, b int)) {
	for r := range s.ranks {
		if s.faults.Rank == 0 || !m.member(s, r) {
			continue
		}
		add(r, 0)
		for i, h := range s.hops {
			if h.edge == trainEdge && h.state == hopCopied && int(h.holder) == r && h.claim == 1 && s.late.there == 0 {
				add(r, 1+i)
			}
		}
		for i, x := range s.roots {
			if s.oldAck == 0 && m.Ranks == 1 && m.batches[x.batch].window < s.ranks[r].window && x.gen == s.gen {
				add(r, 1+len(s.hops)+i)
			}
		}
	}
}

func (m *Model) killRank(s *State, r, wire int) error {
	s.faults.Rank--
	k := &s.ranks[r]
	if wire > len(s.hops) {
		s.oldAck = 1 + s.roots[wire-1-len(s.hops)].batch
	} else if wire > 0 {
		s.late = ghost{1, s.hops[wire-1].batch, uint8(r), k.inc, k.epoch, 1}
	}
	*k = rank{inc: k.inc}
	s.requeue(trainEdge, r)
	return nil
}

func (m *Model) savable(s *State, add func(a, b int)) {
	if m.Faults.Rank > 0 && m.Ranks == 1 && s.faults.Rank > 0 {
		m.each(s, add, func(r *rank) bool { return r.window > s.saved && r.phase == working })
	}
}

func (m *Model) save(s *State, r, _ int) error {
	s.saved, s.kept = s.ranks[r].window, s.ranks[r].weights
	return nil
}

func (m *Model) orphaned(s *State, add func(a, b int)) {
	for r := range s.ranks {
		if s.ranks[r].up {
			return
		}
	}
	for r := range s.ranks {
		add(r, 0)
	}
}

// openGeneration starts again from the checkpoint: a new ledger, empty queues, new consumers.
func (m *Model) openGeneration(s *State, r, _ int) error {
	s.gen++
	s.led = m.open(s.gen, s.saved)
	k := &s.ranks[r]
	*k = rank{up: true, inc: k.inc + 1, window: s.saved, weights: s.kept}
	m.form(s, 1<<r)
	k.epoch = s.led.epoch
	for b := range m.batches {
		if m.batches[b].window >= s.saved {
			s.dead &^= bit(uint8(b))
		}
	}
	s.late, s.moved = ghost{}, 0
	kept := s.hops[:0]
	for _, h := range s.hops {
		if h.state > hopReturned || m.without(PurgeOldGeneration) {
			kept = append(kept, h)
		}
	}
	s.hops = kept
	if !m.without(PurgeOldGeneration) {
		s.roots, s.rels = s.roots[:0], s.rels[:0]
	}
	return nil
}

func (m *Model) lateRecord(s *State, add func(a, b int)) {
	if s.late.there != 0 {
		add(int(s.late.rank), 0)
	}
}

// storeLate stores a dead rank's addition if its claim is still the last record.
func (m *Model) storeLate(s *State, _, _ int) error {
	l := s.late
	s.late = ghost{}
	if l.claim == 0 && !m.without(CompareAndSet) {
		return nil
	}
	m.append(s, l.batch, s.gen, m.added(s, l.batch, s.gen, l.rank, l.inc, l.epoch))
	return nil
}

func (m *Model) lateAck(s *State, add func(a, b int)) {
	if s.oldAck != 0 {
		add(int(s.oldAck)-1, 0)
	}
}

// takeLateAck: with the store lost, sequences start again, and only the consumer's name tells the acknowledgement from
// one of the new generation.
func (m *Model) takeLateAck(s *State, b, _ int) error {
	s.oldAck = 0
	for _, r := range s.roots {
		if int(r.batch) == b && r.gen == s.gen && (m.without(ConsumersPerGeneration) || m.batches[b].window < s.led.window) {
			m.settleRoot(s, r.batch)
			return nil
		}
	}
	return nil
}
