package modeltest

import (
	"errors"
	"fmt"
)

var errLeak = errors.New("a slot is occupied and nobody will release it")

// check looks for what must not be in any state.
func (m *Model) check(s *State) error {
	if err := m.leaks(s); err != nil {
		return err
	}
	return m.complete(s)
}

// leaks looks for a slot that is out and that nothing refers to, unless its owner frees it by itself.
func (m *Model) leaks(s *State) error {
	for o := range m.pools {
		for i, u := range m.slotsOf(s, o) {
			if u.state != published {
				continue
			}
			if u.gen != s.gen && !m.without(FreeOldGeneration) || m.batches[u.batch].window < s.led.window && !m.without(FreeCommitted) || s.moved&(1<<o) != 0 {
				continue
			}
			if u.gen != s.gen && s.entered[o] != s.gen {
				continue
			}
			if !s.refers(ref{uint8(o), uint8(i), fresh}) {
				return fmt.Errorf("%w: slot %d of owner %d, batch %d", errLeak, i, o, u.batch)
			}
		}
	}
	return nil
}

func (s *State) refers(r ref) bool {
	for i := range s.hops {
		if s.hops[i].ref == r {
			return true
		}
	}
	for _, x := range s.rels {
		if x == r {
			return true
		}
	}
	return false
}

// complete checks a run's end: every planned batch is in the weights once, or dead.
func (m *Model) complete(s *State) error {
	if !m.Done(s) {
		return nil
	}
	for r := range s.ranks {
		k := &s.ranks[r]
		if !m.member(s, r) {
			continue
		}
		for b := range m.batches {
			if in, out := k.weights&bit(uint8(b)) != 0, s.dead&bit(uint8(b)) != 0; in == out {
				return fmt.Errorf("rank %d ends with batch %d trained: %v, dead: %v", r, b, in, out)
			}
		}
	}
	return nil
}
