package modeltest

import (
	"fmt"

	"penstock/broker/policy"
)

var builderSteps = []step{
	{"builder publishes the next root of bucket", false, (*Model).publishable, (*Model).publishRoot},
	{"pull limits move", true, (*Model).movable, (*Model).moveLimits},
	{"builder resumes", false, (*Model).builderBehind, (*Model).resume},
}

// publishable lists the buckets whose next root may be published, and for one that is not in plan order, the one after.
func (m *Model) publishable(s *State, add func(a, b int)) {
	if s.builder != s.gen {
		return
	}
	for k, list := range m.buckets {
		if stored, _ := m.stored(s, k); stored >= m.wire { // refused; the builder tries again
			continue
		}
		skip := 0
		for _, b := range list {
			if s.sent&bit(b) != 0 {
				continue
			}
			w := uint32(m.batches[b].window)
			if !policy.Publishable(w, s.led.lineage.Next, uint32(m.Lookahead)) && !m.without(PublishWithinLookahead) {
				break
			}
			add(k, int(b))
			if skip++; skip > 1 || !m.without(PublishInPlanOrder) {
				break
			}
		}
	}
}

// stored counts the roots on a bucket's subject, and those of generations that are over among them.
func (m *Model) stored(s *State, bucket int) (all, old int) {
	for _, r := range s.roots {
		if int(m.batches[r.batch].bucket) == bucket {
			all++
			if r.gen != s.gen {
				old++
			}
		}
	}
	return all, old
}

// due reports whether a bucket's next root may be published by the windows that have committed.
func (m *Model) due(s *State, bucket int) bool {
	for _, b := range m.buckets[bucket] {
		if s.sent&bit(b) == 0 {
			return s.builder == s.gen && policy.Publishable(uint32(m.batches[b].window), s.led.lineage.Next, uint32(m.Lookahead))
		}
	}
	return false
}

func (m *Model) publishRoot(s *State, bucket, b int) error {
	s.sent |= bit(uint8(b))
	s.roots = append(s.roots, root{batch: uint8(b), gen: s.gen})
	open := 0
	for _, r := range s.roots {
		if int(m.batches[r.batch].bucket) == bucket && r.gen == s.gen && m.batches[r.batch].window >= s.led.window {
			open++
		}
	}
	if l := m.limits[bucket]; open > l.Ceiling && !m.without(ResumeBehindTail) {
		return fmt.Errorf("bucket %d has %d open roots, its credit is at most %d", bucket, open, l.Ceiling)
	}
	return nil
}

func (m *Model) builderBehind(s *State, add func(a, b int)) {
	if s.builder != s.gen {
		add(0, 0)
	}
}

// resume finds out what is missing: of each bucket, what lies behind the last root that is stored, from the first window
// on that has not committed.
func (m *Model) resume(s *State, _, _ int) error {
	s.builder, s.sent = s.gen, 0
	for b := range m.batches {
		if m.batches[b].window < s.led.window {
			s.sent |= bit(uint8(b))
		}
	}
	if m.without(ResumeBehindTail) {
		return nil
	}
	for k, list := range m.buckets {
		for i := len(s.roots) - 1; i >= 0; i-- {
			r := s.roots[i]
			if int(m.batches[r.batch].bucket) != k {
				continue
			}
			if r.gen == s.gen {
				for _, b := range list {
					if b <= r.batch {
						s.sent |= bit(b)
					}
				}
			}
			break
		}
	}
	return nil
}

func (m *Model) movable(s *State, add func(a, b int)) {
	if s.faults.Moves > 0 {
		add(0, 0)
	}
}

// moveLimits moves every pull limit to the other end of its range. A lower limit takes nothing back.
func (m *Model) moveLimits(s *State, _, _ int) error {
	s.faults.Moves--
	s.other = !s.other
	return nil
}
