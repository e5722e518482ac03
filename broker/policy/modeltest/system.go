package modeltest

import (
	"fmt"

	"penstock/broker/policy"
	"penstock/schema"
)

// System is a run: its plan, its processes, and what may go wrong.
type System struct {
	Name      string
	Plan      [][]int // by window, the bucket of each batch, in plan order; at most 64 batches in all
	Lookahead int

	Targets, TargetSlots int
	Packers, PackSlots   int
	Ranks                int
	Buffers              int // batches that a rank copies at once; 0 for no bound

	Deterministic bool
	InOrder       bool // a rank adds in plan order; otherwise each batch has a part of the sum of its own, or order means nothing
	AtCeiling     bool // pull limits stand at their ceiling, not at their floor
	Ordered       bool // targets follow the choosing rule with full sight; otherwise they take any bucket
	Lean          bool // a queued hop whose slot its owner freed is dropped at once, not by whoever gets it
	Grain         Grain

	Faults  Faults
	Without Rule // a rule that is not in force; None for all in force
	Also    Rule // another
}

// Grain says which steps are taken apart. Two steps that nobody can tell from one, as long as nothing goes wrong between
// them, are one in a coarse model, which has far fewer states.
type Grain struct {
	Pack     bool // a packer's receiving, publishing, releasing and acknowledging are steps of their own
	Train    bool // and a rank's receiving, adding, releasing and acknowledging
	Reads    bool // a rank's copy takes time
	Releases bool // a release takes time
}

// Faults bounds what may go wrong.
type Faults struct {
	Builder, Target, Packer, Rank uint8 // crashes, each followed by a restart
	LostMarks                     uint8 // messages delivered again although their holder lives
	Lost                          uint8 // hops and releases that the broker loses after it acknowledged them
	Doubles                       uint8 // hops and releases stored or delivered twice
	Bad                           uint8 // features that fail the packer's test
	Moves                         uint8 // times that all pull limits move between floor and ceiling
}

// batch is one planned batch.
type batch struct{ window, bucket uint8 }

// Model is a system ready to be explored. It is not safe for concurrent use.
type Model struct {
	System
	batches []batch
	windows [][]uint32 // ids, by window
	buckets [][]uint8  // ids, by bucket
	limits  []policy.Limits
	wire    int // roots that a subject of them holds at most: the tripwire
	pools   []pool
	ledgers map[string]*ledger
	claims  map[ledgerStep]*ledger
	key     []byte
}

// pool is where an owner's slots lie in a state: targets first, then packers.
type pool struct{ first, slots int }

// New checks a system and prepares its model.
func New(sys System) (*Model, error) {
	m := &Model{System: sys, ledgers: map[string]*ledger{}, claims: map[ledgerStep]*ledger{}}
	for w, list := range sys.Plan {
		var ids []uint32
		for _, k := range list {
			for len(m.buckets) <= k {
				m.buckets = append(m.buckets, nil)
			}
			ids = append(ids, uint32(len(m.batches)))
			m.buckets[k] = append(m.buckets[k], uint8(len(m.batches)))
			m.batches = append(m.batches, batch{uint8(w), uint8(k)})
		}
		m.windows = append(m.windows, ids)
	}
	if len(m.batches) == 0 || len(m.batches) > 64 || sys.Targets < 1 || sys.Packers < 1 || sys.Ranks < 1 || sys.Ranks > 8 {
		return nil, fmt.Errorf("system %q: 1 to 64 batches, a target, a packer, 1 to 8 ranks are needed", sys.Name)
	}
	for k := range m.buckets {
		per := make([]int, len(sys.Plan))
		for _, b := range m.buckets[k] {
			per[m.batches[b].window]++
		}
		m.limits = append(m.limits, policy.Bounds(per, sys.Lookahead))
		m.wire = max(m.wire, 2*m.limits[k].Ceiling)
	}
	at := 0
	for o := range sys.Targets + sys.Packers {
		n := sys.TargetSlots
		if o >= sys.Targets {
			n = sys.PackSlots
		}
		if n < 1 { // the stages refuse one slot, with which nobody runs ahead; the rules hold for it too
			return nil, fmt.Errorf("system %q: owner %d has no slot", sys.Name, o)
		}
		m.pools = append(m.pools, pool{at, n})
		at += n
	}
	return m, nil
}

// without reports whether a rule is not in force.
func (m *Model) without(r Rule) bool { return m.Without == r || m.Also == r }

// named is a batch as a record names it.
func (m *Model) named(b, gen uint8) schema.Batch {
	return schema.Batch{Gen: uint32(gen), Window: uint32(m.batches[b].window), Index: uint32(b)}
}

// seen is a batch as whoever gets a record sees it: of the present generation, if nobody looks.
func (m *Model) seen(s *State, b, gen uint8) schema.Batch {
	if m.without(DropOldGenerations) {
		gen = s.gen
	}
	return m.named(b, gen)
}

// grain reports whether the steps of an edge's consumer are taken apart.
func (m *Model) grain(edge uint8) bool {
	return edge == packEdge && m.Grain.Pack || edge == trainEdge && m.Grain.Train
}

// limit is a bucket's pull limit.
func (m *Model) limit(s *State, bucket uint8) int {
	if m.without(CreditFloor) {
		return 1
	}
	l := m.limits[bucket]
	if m.AtCeiling != s.other {
		return l.Clamp(l.Ceiling)
	}
	return l.Clamp(0)
}

func bit(b uint8) uint64 { return 1 << b }
