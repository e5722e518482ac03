package modeltest

import (
	"errors"
	"fmt"
)

var poolSteps = []step{
	{"owner takes a release", false, (*Model).releases, (*Model).takeRelease},
	{"owner frees the slots of committed windows", false, (*Model).committedUses, (*Model).freeCommitted},
	{"owner hands on again", false, (*Model).forgotten, (*Model).handOn},
	{"owner frees what lies behind the lowest index", false, (*Model).movedBack, (*Model).freeMovedBack},
	{"owner enters the new generation", false, (*Model).ownersBehind, (*Model).enter},
}

// slotsOf are an owner's slots.
func (m *Model) slotsOf(s *State, o int) []use {
	p := m.pools[o]
	return s.uses[p.first : p.first+p.slots]
}

func (m *Model) freeSlots(s *State, o int) (n int) {
	for _, u := range m.slotsOf(s, o) {
		if u.state == free {
			n++
		}
	}
	return n
}

// take gives the first free slot of an owner to a batch. References to its earlier use become stale before it is written.
func (m *Model) take(s *State, o int, b uint8) uint8 {
	for i := range m.slotsOf(s, o) {
		if u := &m.slotsOf(s, o)[i]; u.state == free {
			*u = use{writing, b, s.entered[o]}
			if m.without(BumpBeforeWrite) {
				s.turn(uint8(o), uint8(i), fresh, torn)
			} else {
				s.turn(uint8(o), uint8(i), fresh, stale)
			}
			return uint8(i)
		}
	}
	panic("no free slot")
}

// published puts a slot's message out.
func (m *Model) publish(s *State, o int, slot, edge uint8) {
	s.turn(uint8(o), slot, torn, stale)
	u := &m.slotsOf(s, o)[slot]
	u.state = published
	s.hops = append(s.hops, hop{edge: edge, batch: u.batch, gen: u.gen, ref: ref{uint8(o), slot, fresh}})
}

// turn changes how references to a slot stand.
func (s *State) turn(o, slot, from, to uint8) {
	for i := range s.hops {
		s.hops[i].ref.turn(o, slot, from, to)
	}
	for i := range s.rels {
		s.rels[i].turn(o, slot, from, to)
	}
}

func (r *ref) turn(o, slot, from, to uint8) {
	if r.owner == o && r.slot == slot && r.match == from {
		r.match = to
	}
}

func (m *Model) releases(s *State, add func(a, b int)) {
	for i, r := range s.rels {
		if i == 0 || r != s.rels[i-1] {
			add(int(r.owner), i)
		}
	}
}

// takeRelease frees the slot if the release is about its present use.
func (m *Model) takeRelease(s *State, o, i int) error {
	err := m.honour(s, s.rels[i])
	s.rels = append(s.rels[:i], s.rels[i+1:]...)
	return err
}

func (m *Model) honour(s *State, r ref) error {
	u := &m.slotsOf(s, int(r.owner))[r.slot]
	if u.state == free {
		return nil
	}
	switch {
	case r.match == fresh:
		*u = use{}
	case r.match == stale && m.without(ReleaseNamesGeneration):
		return fmt.Errorf("a release of an earlier use of slot %d of owner %d was honoured: batch %d lost it", r.slot, r.owner, u.batch)
	case r.match == gone && m.without(ReleaseNamesOwner):
		return fmt.Errorf("a release of a dead owner's slot %d was honoured by its successor %d: batch %d lost it", r.slot, r.owner, u.batch)
	case r.match == torn:
		return errors.New("a release was honoured while the slot was written for another use")
	}
	return nil
}

func (m *Model) committedUses(s *State, add func(a, b int)) {
	if m.without(FreeCommitted) {
		return
	}
	for o := range m.pools {
		for _, u := range m.slotsOf(s, o) {
			if u.state >= published && m.batches[u.batch].window < s.led.window {
				add(o, 0)
				break
			}
		}
	}
}

func (m *Model) freeCommitted(s *State, o, _ int) error {
	for i := range m.slotsOf(s, o) {
		if u := &m.slotsOf(s, o)[i]; u.state >= published && m.batches[u.batch].window < s.led.window {
			*u = use{}
		}
	}
	return nil
}

// forgotten lists the slots of the open window of which nobody knows.
func (m *Model) forgotten(s *State, add func(a, b int)) {
	for o := range m.pools {
		for i, u := range m.slotsOf(s, o) {
			if u.state == adrift && u.gen == s.gen && m.batches[u.batch].window == s.led.window && !m.without(HandOnAgain) {
				add(o, i)
			}
		}
	}
}

// handOn publishes a slot's message once more, as another message.
func (m *Model) handOn(s *State, o, i int) error {
	u, edge := &m.slotsOf(s, o)[i], uint8(packEdge)
	if o >= m.Targets {
		edge = trainEdge
	}
	u.state = published
	h := hop{edge: edge, batch: u.batch, gen: u.gen, ref: ref{uint8(o), uint8(i), fresh}, copy: 2}
	for _, x := range s.hops {
		if x.ref == h.ref {
			h.copy = max(h.copy, x.copy+1)
		}
	}
	s.hops = append(s.hops, h)
	return nil
}

func (m *Model) movedBack(s *State, add func(a, b int)) {
	for o := range m.pools {
		if s.moved&(1<<o) != 0 {
			add(o, 0)
		}
	}
}

// freeMovedBack frees the slots at or after the lowest index that is not added.
func (m *Model) freeMovedBack(s *State, o, _ int) error {
	s.moved &^= 1 << o
	lowest, ok := m.lowest(s)
	for i := range m.slotsOf(s, o) {
		if u := &m.slotsOf(s, o)[i]; ok && u.state >= published && uint32(u.batch) >= lowest {
			*u = use{}
		}
	}
	return nil
}

func (m *Model) ownersBehind(s *State, add func(a, b int)) {
	for o, gen := range s.entered {
		if gen != s.gen {
			add(o, 0)
		}
	}
}

// enter gives up what the owner did in the old generation, and all its slots.
func (m *Model) enter(s *State, o, _ int) error {
	s.entered[o] = s.gen
	kept := s.hops[:0]
	for _, h := range s.hops {
		if h.state == hopQueued || h.state == hopReturned || h.edge != packEdge || int(h.holder) != o {
			kept = append(kept, h)
		}
	}
	s.hops = kept
	for i := range m.slotsOf(s, o) {
		if u := &m.slotsOf(s, o)[i]; !m.without(FreeOldGeneration) || u.state == writing {
			*u = use{}
		}
	}
	return nil
}
