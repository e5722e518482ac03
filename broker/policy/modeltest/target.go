package modeltest

import (
	"penstock/broker/policy"
)

var targetSteps = []step{
	{"target pulls a root", false, (*Model).pullable, (*Model).pull},
	{"target publishes its slot", false, (*Model).forwarded, (*Model).publishCaptures},
}

// heads are the roots that each bucket may deliver now: one that came back, or the first in line while credit lasts.
func (m *Model) heads(s *State, add func(i int)) {
	for i := 0; i < len(s.roots); {
		bucket := m.batches[s.roots[i].batch].bucket
		first, out := -1, 0
		for ; i < len(s.roots) && m.batches[s.roots[i].batch].bucket == bucket; i++ {
			switch s.roots[i].state {
			case rootBack:
				out++
				add(i)
			case rootOut:
				out++
			default:
				if first < 0 {
					first = i
				}
			}
		}
		if first >= 0 && out < m.limit(s, bucket) {
			add(first)
		}
	}
}

// pullable lists the roots that each target may be given next.
func (m *Model) pullable(s *State, add func(a, b int)) {
	for t := range m.Targets {
		free := m.freeSlots(s, t)
		if s.entered[t] != s.gen || free == 0 {
			continue
		}
		if m.Ordered {
			if i := m.chosen(s, free); i >= 0 {
				add(t, i)
			}
			continue
		}
		m.heads(s, func(i int) {
			// a root that comes back and goes back again changes nothing
			if s.roots[i].state != rootBack || m.wanted(s, s.roots[i], free) {
				add(t, i)
			}
		})
	}
}

// wanted reports whether a root would be settled or taken.
func (m *Model) wanted(s *State, r root, free int) bool {
	return m.stale(s, r.batch, r.gen) || s.status(m, r.batch).State == policy.Dead || m.admits(s, r.batch, free, ReserveTarget)
}

// admits is the slot rule, unless it is not in force. For ranks that add in plan order it is another one.
func (m *Model) admits(s *State, b uint8, free int, rule Rule) bool {
	if m.without(rule) {
		return free > 0
	}
	if m.InOrder && free == 1 && !m.without(ReserveLowest) {
		lowest, _ := m.lowest(s)
		return uint32(b) <= lowest
	}
	return policy.ReserveFor(&s.led.lineage).Admit(uint32(m.batches[b].window), free)
}

// chosen is the root that a target asks for first by the choosing rule, -1 for none. Cost grows with the bucket.
func (m *Model) chosen(s *State, free int) int {
	var heads []policy.Head
	var at []int
	m.heads(s, func(i int) {
		r := s.roots[i]
		if m.wanted(s, r, free) {
			b := m.batches[r.batch]
			heads = append(heads, policy.Head{Window: uint32(b.window), Index: uint32(r.batch), Cost: float64(b.bucket)})
			at = append(at, i)
		}
	})
	first := policy.Order{Deterministic: m.Deterministic}.First(heads)
	if first < 0 {
		return -1
	}
	return at[first]
}

// pull takes a slot for a root, acknowledges one that needs no work, or hands it back to come again later.
func (m *Model) pull(s *State, t, i int) error {
	r := &s.roots[i]
	if m.stale(s, r.batch, r.gen) || s.status(m, r.batch).State == policy.Dead {
		s.roots = append(s.roots[:i], s.roots[i+1:]...)
		return nil
	}
	if !m.admits(s, r.batch, m.freeSlots(s, t), ReserveTarget) {
		r.state = rootBack
		return nil
	}
	r.state = rootOut
	m.take(s, t, r.batch)
	return nil
}

func (m *Model) forwarded(s *State, add func(a, b int)) {
	for t := range m.Targets {
		for i, u := range m.slotsOf(s, t) {
			if u.state == writing {
				add(t, i)
			}
		}
	}
}

func (m *Model) publishCaptures(s *State, t, i int) error {
	m.publish(s, t, uint8(i), packEdge)
	return nil
}
