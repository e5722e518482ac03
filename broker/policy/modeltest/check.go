package modeltest

import (
	"errors"
	"fmt"
)

var (
	errLeak    = errors.New("a slot is occupied and nobody will release it")
	errTripped = errors.New("the tripwire refuses roots")
)

// check looks for what must not be in any state.
func (m *Model) check(s *State) error {
	if err := m.leaks(s); err != nil {
		return err
	}
	if err := m.duplicates(s); err != nil {
		return err
	}
	if err := m.tripped(s); err != nil {
		return err
	}
	return m.complete(s)
}

// duplicates looks for two members that work on one batch, one of them for nothing. Features that were found bad are the
// exception: whoever gets the next ones does not wait for those that work on the others.
func (m *Model) duplicates(s *State) error {
	if m.Ranks == 1 || m.without(CompareAndSet) { // which promises more
		return nil
	}
	var by [64]uint8 // 1 + rank at work, by batch
	for i := range s.hops {
		h := &s.hops[i]
		if h.edge != trainEdge || h.state != hopReading && h.state != hopCopied || h.gen != s.gen || !m.member(s, int(h.holder)) {
			continue
		}
		if r := by[h.batch]; r != 0 && r != 1+h.holder && s.status(m, h.batch).Suspects == 0 {
			return fmt.Errorf("ranks %d and %d both work on batch %d", r-1, h.holder, h.batch)
		}
		by[h.batch] = 1 + h.holder
	}
	return nil
}

// tripped looks for a root that is due and refused because of roots that nobody will work on.
func (m *Model) tripped(s *State) error {
	for k := range m.buckets {
		if all, old := m.stored(s, k); all >= m.wire && old > 0 && m.due(s, k) {
			return fmt.Errorf("%w: bucket %d holds %d roots, %d of them of generations that are over", errTripped, k, all, old)
		}
	}
	return nil
}

// leaks looks for a slot that is out and that nothing refers to, unless its owner frees it by itself.
func (m *Model) leaks(s *State) error {
	for o := range m.pools {
		for i, u := range m.slotsOf(s, o) {
			if u.state < published || u.state == adrift && !m.without(FreeCommitted) {
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
