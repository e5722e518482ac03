package modeltest

var messageSteps = []step{
	{"holder releases the slot of hop", false, (*Model).unreleased, (*Model).release},
	{"holder acknowledges hop", false, (*Model).unsettled, (*Model).acknowledge},
	{"AckWait ends for root", false, (*Model).abandoned, (*Model).redeliverRoot},
	{"a mark is lost on root", true, (*Model).marked, (*Model).loseRootMark},
	{"a mark is lost on hop", true, (*Model).heldHops, (*Model).loseHopMark},
	{"the queue doubles hop", true, (*Model).queuedHops, (*Model).doubleHop},
	{"a release is taken twice by owner", true, (*Model).doublable, (*Model).doubleRelease},
	{"a release is lost for owner", true, (*Model).losable, (*Model).loseRelease},
	{"the queue loses hop", true, (*Model).losableHops, (*Model).loseHop},
}

func hopStep(name string) bool  { return name[len(name)-3:] == "hop" }
func rootStep(name string) bool { return name[len(name)-4:] == "root" }

func (m *Model) unreleased(s *State, add func(a, b int)) {
	from := uint8(hopSettling)
	if m.without(ReleaseBeforeAck) {
		from = hopForgot
	}
	for i, h := range s.hops {
		if h.state == from {
			add(int(h.holder), i)
		}
	}
}

// release publishes the slot's release. One of a use that is over would mean nothing to the owner and is left out.
func (m *Model) release(s *State, _, i int) error {
	h := &s.hops[i]
	r := h.ref
	if h.state == hopForgot {
		s.hops = append(s.hops[:i], s.hops[i+1:]...)
	} else {
		h.state = hopReleased
	}
	switch {
	case r.match == stale || r.match == gone:
		return nil
	case m.Grain.Releases:
		s.rels = append(s.rels, r)
		return nil
	}
	return m.honour(s, r)
}

func (m *Model) unsettled(s *State, add func(a, b int)) {
	for i, h := range s.hops {
		if h.state == hopReleased || h.state == hopSettling && m.without(ReleaseBeforeAck) {
			add(int(h.holder), i)
		}
	}
}

// acknowledge removes the message, and with it every other delivery of it that nobody holds: the broker does not fence.
func (m *Model) acknowledge(s *State, _, i int) error {
	h := s.hops[i]
	kept := s.hops[:0]
	for k, x := range s.hops {
		same := x.edge == h.edge && x.batch == h.batch && x.gen == h.gen && x.ref == h.ref && x.copy == h.copy
		switch {
		case k == i && h.state == hopSettling:
			x.state = hopForgot
			kept = append(kept, x)
		case k != i && (!same || x.state > hopReturned):
			kept = append(kept, x)
		}
	}
	s.hops = kept
	return nil
}

// inProgress reports whether somebody alive marks a batch's root: the owner of a slot that it is in, or a rank that has
// its gradient.
func (m *Model) inProgress(s *State, r root) bool {
	for o := range m.pools {
		for _, u := range m.slotsOf(s, o) {
			if u.state != free && u.batch == r.batch && u.gen == r.gen {
				return true
			}
		}
	}
	for i := range s.ranks {
		if s.ranks[i].up && s.ranks[i].sum&bit(r.batch) != 0 && r.gen == s.gen {
			return true
		}
	}
	for _, h := range s.hops { // a copy that waits for its turn outlives its slot
		if m.InOrder && h.edge == trainEdge && h.state == hopCopied && h.batch == r.batch && h.gen == r.gen {
			return true
		}
	}
	return false
}

func (m *Model) abandoned(s *State, add func(a, b int)) {
	for i, r := range s.roots {
		if r.state == rootOut && !m.inProgress(s, r) {
			add(int(r.batch), i)
		}
	}
}

func (m *Model) redeliverRoot(s *State, _, i int) error {
	s.roots[i].state = rootBack
	return nil
}

func (m *Model) marked(s *State, add func(a, b int)) {
	for i, r := range s.roots {
		if s.faults.LostMarks > 0 && r.state == rootOut && m.inProgress(s, r) {
			add(int(r.batch), i)
		}
	}
}

func (m *Model) loseRootMark(s *State, b, i int) error {
	s.faults.LostMarks--
	return m.redeliverRoot(s, b, i)
}

func (m *Model) heldHops(s *State, add func(a, b int)) {
	for i, h := range s.hops {
		if s.faults.LostMarks > 0 && h.state >= hopHeld && h.state < hopForgot {
			add(int(h.holder), i)
		}
	}
}

// loseHopMark has a hop delivered again although its holder works on it.
func (m *Model) loseHopMark(s *State, _, i int) error {
	s.faults.LostMarks--
	h := s.hops[i]
	h.state, h.holder, h.own, h.claim = hopQueued, 0, 0, 0
	s.hops = append(s.hops, h)
	return nil
}

func (m *Model) queuedHops(s *State, add func(a, b int)) {
	for i, h := range s.hops {
		if s.faults.Doubles > 0 && h.state == hopQueued && h.copy == 0 {
			add(int(h.edge), i)
		}
	}
}

func (m *Model) doubleHop(s *State, _, i int) error {
	s.faults.Doubles--
	h := s.hops[i]
	h.copy = 1
	s.hops = append(s.hops, h)
	return nil
}

func (m *Model) doublable(s *State, add func(a, b int)) {
	if s.faults.Doubles > 0 {
		m.releases(s, add)
	}
}

// doubleRelease is a release whose acknowledgement is lost: it comes again.
func (m *Model) doubleRelease(s *State, _, i int) error {
	s.faults.Doubles--
	return m.honour(s, s.rels[i])
}

func (m *Model) losable(s *State, add func(a, b int)) {
	if s.faults.Lost > 0 {
		m.releases(s, add)
	}
}

// loseRelease takes a release off the queue unread. The slot that it is about waits for its window.
func (m *Model) loseRelease(s *State, _, i int) error {
	s.faults.Lost--
	r := s.rels[i]
	s.rels = append(s.rels[:i], s.rels[i+1:]...)
	m.lose(s, r)
	return nil
}

// lose says that nobody knows of a slot any more. One that has been freed, by the same message that came twice, is nobody's.
func (m *Model) lose(s *State, r ref) {
	if u := &m.slotsOf(s, int(r.owner))[r.slot]; r.match == fresh && u.state != free {
		u.state = adrift
	}
}

func (m *Model) losableHops(s *State, add func(a, b int)) {
	for i, h := range s.hops {
		if s.faults.Lost > 0 && h.state == hopQueued && h.ref.match == fresh {
			add(int(h.edge), i)
		}
	}
}

func (m *Model) loseHop(s *State, _, i int) error {
	s.faults.Lost--
	r := s.hops[i].ref
	s.hops = append(s.hops[:i], s.hops[i+1:]...)
	m.lose(s, r)
	return nil
}
