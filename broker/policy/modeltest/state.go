package modeltest

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// Progress of a slot.
const (
	free      = iota
	writing   // taken, its message not published
	published // its message is out
	adrift    // its message or its release was lost
)

// use is one slot.
type use struct{ state, batch, gen uint8 }

// How a reference stands to the slot it names.
const (
	fresh = iota // the slot's generation is the reference's
	stale        // the slot was taken again since
	gone         // its owner is dead
	torn         // the slot is being written and its generation not yet moved: only without a rule
)

type ref struct{ owner, slot, match uint8 }

// Progress of a root message.
const (
	rootQueued = iota
	rootOut    // delivered, not acknowledged
	rootBack   // to be delivered again
)

type root struct{ batch, gen, state uint8 }

// Edges.
const (
	packEdge = iota
	trainEdge
)

// Progress of a hop message, or of one delivery of it.
const (
	hopQueued   = iota
	hopReturned // handed back without delay: it comes before what is queued; only without a rule
	hopHeld     // parked
	hopReading  // first test passed; a packer has a slot of its own
	hopCopied   // second test passed: a rank's own copy
	hopSettling // done with, slot not released
	hopReleased // slot released, not acknowledged
	hopForgot   // acknowledged, slot not released: only without a rule
)

type hop struct {
	edge, batch, gen uint8
	ref              ref
	state, holder    uint8
	own              uint8 // reading packer: its slot
	claim            uint8 // rank: 1 while its claim is the last record of the batch
	copy             uint8 // 1 for the second of a message that was stored twice, from 2 on for what was handed on again
}

// Progress of a rank in its window.
const (
	working  = iota
	prepared // takes part in the reduction
	reduced  // has the sum of all members
)

type rank struct {
	up                  bool
	inc, epoch, window  uint8
	phase               uint8
	sum, total, weights uint64 // batches: own sum, reduced sum, stepped on
}

// ghost is a record of a dead rank on its way to the ledger.
type ghost struct {
	there, batch, rank, inc, epoch, claim uint8
}

// State is what all processes and the broker know.
type State struct {
	faults  Faults // left
	gen     uint8
	led     *ledger
	roots   []root
	hops    []hop
	rels    []ref
	uses    []use
	entered []uint8 // by owner: the generation it works in, 0 after its death
	moved   uint8   // owners that have yet to see that the lowest index moved back

	other   bool   // pull limits stand at their other end
	builder uint8  // the generation that it publishes
	sent    uint64 // roots that it need not publish any more

	ranks  []rank
	saved  uint8  // window of the checkpoint
	kept   uint64 // weights in it
	dead   uint64 // batches given up
	late   ghost
	oldAck uint8 // 1 + batch whose root a dead rank's acknowledgement is on its way to
}

// Start is the state in which the first generation is open and nothing is published.
func (m *Model) Start() *State {
	s := &State{faults: m.Faults, gen: 1, uses: make([]use, m.slots()), entered: make([]uint8, len(m.pools))}
	members := uint8(0)
	for r := range m.Ranks {
		s.ranks = append(s.ranks, rank{up: true})
		members |= 1 << r
	}
	s.led = m.open(1, 0)
	m.form(s, members)
	for r := range s.ranks {
		s.ranks[r].epoch = s.led.epoch
	}
	for o := range s.entered {
		s.entered[o] = 1
	}
	s.builder = 1
	return s
}

func (m *Model) slots() int {
	last := m.pools[len(m.pools)-1]
	return last.first + last.slots
}

// copyFrom makes s equal to t, in its own memory.
func (s *State) copyFrom(t *State) {
	roots, hops, rels, uses, entered, ranks := s.roots, s.hops, s.rels, s.uses, s.entered, s.ranks
	*s = *t
	s.roots = append(roots[:0], t.roots...)
	s.hops = append(hops[:0], t.hops...)
	s.rels = append(rels[:0], t.rels...)
	s.uses = append(uses[:0], t.uses...)
	s.entered = append(entered[:0], t.entered...)
	s.ranks = append(ranks[:0], t.ranks...)
}

// tidy gives equal states one form: what has no order is sorted, what means nothing is cleared.
func (m *Model) tidy(s *State) {
	if m.Lean {
		s.hops = slices.DeleteFunc(s.hops, func(h hop) bool {
			return h.state == hopQueued && (h.ref.match != fresh || m.slotsOf(s, int(h.ref.owner))[h.ref.slot].state == free)
		})
	}
	slices.SortStableFunc(s.roots, func(a, b root) int {
		return cmp.Compare(m.batches[a.batch].bucket, m.batches[b.batch].bucket)
	})
	for i := range s.uses {
		if s.uses[i].state == free {
			s.uses[i] = use{}
		}
	}
	if !m.without(ReleaseNamesGeneration) && !m.without(ReleaseNamesOwner) {
		for i := range s.hops {
			s.hops[i].ref.forget()
		}
		for i := range s.rels {
			s.rels[i].forget()
		}
	}
	slices.SortFunc(s.hops, compareHops)
	slices.SortFunc(s.rels, compareRefs)
}

// forget drops which slot a reference named that names no use any more.
func (r *ref) forget() {
	if r.match == stale || r.match == gone {
		r.slot = 0
	}
}

func compareRefs(a, b ref) int {
	return cmp.Compare(int(a.owner)<<16|int(a.slot)<<8|int(a.match), int(b.owner)<<16|int(b.slot)<<8|int(b.match))
}

func (h *hop) order() uint64 {
	return uint64(h.edge)<<56 | uint64(h.batch)<<48 | uint64(h.gen)<<40 | uint64(h.state)<<32 | uint64(h.holder)<<24 | uint64(h.own)<<16 | uint64(h.claim)<<8 | uint64(h.copy)
}

func compareHops(a, b hop) int {
	if c := cmp.Compare(a.order(), b.order()); c != 0 {
		return c
	}
	return compareRefs(a.ref, b.ref)
}

func yes(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// encode appends everything that tells states apart.
func (s *State) encode(b []byte) []byte {
	f := s.faults
	b = append(b, f.Builder, f.Target, f.Packer, f.Rank, f.LostMarks, f.Lost, f.Doubles, f.Bad, s.gen, s.moved, s.builder, s.saved, s.oldAck,
		s.late.there, s.late.batch, s.late.rank, s.late.inc, s.late.epoch, s.late.claim, uint8(len(s.roots)), uint8(len(s.hops)), uint8(len(s.rels)))
	b = binary.LittleEndian.AppendUint32(b, s.led.id)
	b = binary.LittleEndian.AppendUint64(b, s.sent)
	b = binary.LittleEndian.AppendUint64(b, s.kept)
	b = binary.LittleEndian.AppendUint64(b, s.dead)
	for _, r := range s.roots {
		b = append(b, r.batch, r.gen, r.state)
	}
	for i := range s.hops {
		h := &s.hops[i]
		b = binary.LittleEndian.AppendUint64(b, h.order())
		b = append(b, h.ref.owner, h.ref.slot, h.ref.match)
	}
	for _, r := range s.rels {
		b = append(b, r.owner, r.slot, r.match)
	}
	for _, u := range s.uses {
		b = append(b, u.state, u.batch, u.gen)
	}
	b = append(b, s.entered...)
	b = append(b, f.Moves, yes(s.other))
	for i := range s.ranks {
		r := &s.ranks[i]
		b = append(b, yes(r.up), r.inc, r.epoch, r.window, r.phase)
		b = binary.LittleEndian.AppendUint64(b, r.sum)
		b = binary.LittleEndian.AppendUint64(b, r.total)
		b = binary.LittleEndian.AppendUint64(b, r.weights)
	}
	return b
}
