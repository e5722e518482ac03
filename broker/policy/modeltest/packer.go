package modeltest

import "fmt"

var packerSteps = []step{
	{"packer receives hop", false, (*Model).packArrivals, (*Model).park},
	{"packer starts on hop", false, (*Model).packable, (*Model).startPacking},
	{"packer finishes hop", false, (*Model).packing, (*Model).finishPacking},
	{"packer finds bad features in hop", true, (*Model).spoilable, (*Model).reject},
	{"packer hands back hop", false, (*Model).unparkable, (*Model).handBack},
}

// arrivals lists the hops of an edge that a consumer may be given, each kind once.
func (m *Model) arrivals(s *State, edge uint8, add func(i int)) {
	returned, out := false, 0
	for _, h := range s.hops {
		if h.edge == edge && h.state != hopQueued {
			out++
			returned = returned || h.state == hopReturned
		}
	}
	if m.without(HopLimitCoversSlots) && out > 0 {
		return
	}
	for i, h := range s.hops {
		if h.edge == edge && (h.state == hopReturned || h.state == hopQueued && !returned) && (i == 0 || s.hops[i-1] != h) {
			add(i)
		}
	}
}

func (m *Model) packArrivals(s *State, add func(a, b int)) {
	for p := range m.Packers {
		o := m.Targets + p
		if !m.Grain.Pack || s.entered[o] != s.gen || m.freeSlots(s, o) == 0 || m.without(ParkUntilOpen) && s.holds(packEdge, o) {
			continue
		}
		m.arrivals(s, packEdge, func(i int) { add(o, i) })
	}
}

// holds reports whether a process has a hop that it has not begun to work on.
func (s *State) holds(edge uint8, holder int) bool {
	for _, h := range s.hops {
		if h.edge == edge && h.state == hopHeld && int(h.holder) == holder {
			return true
		}
	}
	return false
}

// park takes a hop into a process's hands.
func (m *Model) park(s *State, holder, i int) error {
	s.hops[i].state, s.hops[i].holder = hopHeld, uint8(holder)
	return nil
}

// busy reports whether a packer is between the start and the acknowledgement of a hop.
func (s *State) busy(o int) bool {
	for _, h := range s.hops {
		if h.edge == packEdge && h.state > hopHeld && int(h.holder) == o {
			return true
		}
	}
	return false
}

// packable lists the hops that a packer can start on: those it holds, or, where receiving is no step, those queued.
func (m *Model) packable(s *State, add func(a, b int)) {
	for p := 0; p < m.Packers && !m.Grain.Pack; p++ {
		o := m.Targets + p
		if s.entered[o] != s.gen || m.freeSlots(s, o) == 0 || s.busy(o) {
			continue
		}
		m.arrivals(s, packEdge, func(i int) {
			if m.workable(s, o, s.hops[i]) {
				add(o, i)
			}
		})
	}
	for i, h := range s.hops {
		o := int(h.holder)
		if h.edge == packEdge && h.state == hopHeld && s.entered[o] == s.gen && !s.busy(o) && m.workable(s, o, h) {
			add(o, i)
		}
	}
}

// workable reports whether a packer can settle a hop now: drop it, or take a slot for it.
func (m *Model) workable(s *State, o int, h hop) bool {
	return m.stale(s, h.batch, h.gen) || m.admits(s, h.batch, m.freeSlots(s, o), ReservePack)
}

// startPacking drops a hop that nobody needs or whose slot's use is over; else it takes a slot and begins to copy.
func (m *Model) startPacking(s *State, o, i int) error {
	h := &s.hops[i]
	h.holder = uint8(o)
	if m.unneeded(s, *h) || h.ref.match == stale || h.ref.match == gone {
		return m.drop(s, i)
	}
	h.state = hopReading
	h.own = m.take(s, o, h.batch)
	return nil
}

// unneeded reports whether a hop is void.
func (m *Model) unneeded(s *State, h hop) bool {
	return s.led.lineage.Settled(m.seen(s, h.batch, h.gen))
}

// drop leaves a hop to be settled without work.
func (m *Model) drop(s *State, i int) error {
	h := &s.hops[i]
	committed := h.gen == s.gen && m.batches[h.batch].window < s.led.window
	if m.without(DropReleases) || m.without(DropCommittedReleases) && committed {
		h.state = hopReleased
		return nil
	}
	return m.finish(s, i)
}

// finish leaves a hop to be released and acknowledged.
func (m *Model) finish(s *State, i int) error {
	s.hops[i].state = hopSettling
	if m.grain(s.hops[i].edge) {
		return nil
	}
	if err := m.release(s, 0, i); err != nil {
		return err
	}
	return m.acknowledge(s, 0, i)
}

func (m *Model) packing(s *State, add func(a, b int)) {
	for i, h := range s.hops {
		if h.edge == packEdge && h.state == hopReading {
			add(int(h.holder), i)
		}
	}
}

// finishPacking publishes the copy if the target's slot was in the same use throughout, and else discards it.
func (m *Model) finishPacking(s *State, o, i int) error {
	h := &s.hops[i]
	own := h.own
	h.own = 0
	if h.ref.match == torn || m.without(CheckAfterCopy) && h.ref.match == stale {
		return fmt.Errorf("packer %d publishes batch %d from a slot that was overwritten while it read", o, h.batch)
	}
	if h.ref.match != fresh {
		m.slotsOf(s, o)[own] = use{}
		return m.drop(s, i)
	}
	m.publish(s, o, own, trainEdge)
	return m.finish(s, i)
}

func (m *Model) spoilable(s *State, add func(a, b int)) {
	if s.faults.Bad > 0 {
		m.packing(s, add)
	}
}

// unparkable lists hops that cannot be worked on yet, where they are not parked but handed back at once.
func (m *Model) unparkable(s *State, add func(a, b int)) {
	if !m.without(ParkUntilOpen) {
		return
	}
	for i, h := range s.hops {
		o := int(h.holder)
		if h.state == hopHeld && (h.edge == packEdge && !m.workable(s, o, h) || h.edge == trainEdge && !m.opened(s, o, h)) {
			add(o, i)
		}
	}
}

func (m *Model) handBack(s *State, _, i int) error {
	s.hops[i].state, s.hops[i].holder = hopReturned, 0
	return nil
}
