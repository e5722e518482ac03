package modeltest

import (
	"fmt"

	"penstock/broker/policy"
	"penstock/schema"
)

// ledger is a content of the ledger. Equal contents are one ledger, whatever the order in which they came about.
type ledger struct {
	id      uint32
	lineage policy.Lineage // never changed
	records []schema.Record
	window  uint8 // first that has not committed
	epoch   uint8 // rank epoch
	members uint8 // ranks in it
	agreed  bool  // all of them have prepared
}

// ledgerStep names a record behind a content.
type ledgerStep struct {
	on     uint32
	record string
}

// open returns the ledger of a new generation.
func (m *Model) open(gen, start uint8) *ledger {
	return m.intern([]schema.Record{schema.Gen{Gen: uint32(gen), Start: uint32(start)}})
}

// write returns the ledger with one more record. l.lineage stays as it is.
func (m *Model) write(l *ledger, rec schema.Record) *ledger {
	k := ledgerStep{l.id, fmt.Sprint(rec.Kind(), rec)}
	if next, ok := m.claims[k]; ok {
		return next
	}
	next := m.intern(append(l.records[:len(l.records):len(l.records)], rec))
	m.claims[k] = next
	return next
}

// intern applies records as a follower does, and returns the one ledger that tells the same.
func (m *Model) intern(records []schema.Record) *ledger {
	l := &ledger{records: records}
	for i, rec := range records {
		l.lineage.Apply(rec, uint64(i+1))
	}
	l.window, l.epoch = uint8(l.lineage.Next), uint8(l.lineage.Epoch)
	l.agreed, _ = l.lineage.Agreed()
	m.key = append(m.key[:0], uint8(l.lineage.Gen), uint8(l.lineage.Start), l.window, l.epoch, m.votes(records, l))
	for _, k := range l.lineage.Members {
		l.members |= 1 << (k.Rank[0] - 'a')
		m.key = append(m.key, uint8(k.Incarnation))
	}
	for b := range m.batches {
		st := l.lineage.Of(uint32(m.batches[b].window), uint32(b))
		owner := uint8(0)
		if st.State == policy.Claimed || st.State == policy.Added {
			owner = uint8(st.Owner)
		}
		m.key = append(m.key, uint8(st.State), owner, uint8(st.Suspects))
	}
	if known, ok := m.ledgers[string(m.key)]; ok {
		return known
	}
	l.id = uint32(len(m.ledgers))
	m.ledgers[string(m.key)] = l
	return l
}

// append writes a record about a batch of a generation, and lets every claim on it know that it is not the last any more.
func (m *Model) append(s *State, b, gen uint8, rec schema.Record) {
	s.led = m.write(s.led, rec)
	for i := range s.hops {
		if s.hops[i].batch == b && s.hops[i].gen == gen {
			s.hops[i].claim = 0
		}
	}
	if s.late.batch == b {
		s.late.claim = 0
	}
}

// votes are the ranks that have prepared the open window in the epoch in force.
func (m *Model) votes(records []schema.Record, l *ledger) (mask uint8) {
	for _, rec := range records {
		if p, ok := rec.(schema.Prepared); ok && p.Window == l.lineage.Next && p.RankEpoch == l.lineage.Epoch {
			mask |= 1 << (p.Rank[0] - 'a')
		}
	}
	return mask
}

func rankName(r uint8) string { return string('a' + rune(r)) }

// owner is a rank's incarnation, never 0.
func owner(r, inc uint8) uint64 { return uint64(r)<<4 | uint64(inc+1) }

func (m *Model) added(s *State, b, gen, r, inc, epoch uint8) schema.Added {
	rec := schema.Added{Batch: m.named(b, gen), Rank: rankName(r), Incarnation: owner(r, inc), RankEpoch: uint32(epoch)}
	if m.without(OutsidersAreVoid) {
		for _, k := range s.led.lineage.Members {
			rec.Rank, rec.Incarnation = k.Rank, k.Incarnation
		}
	}
	return rec
}

// status is what the ledger says of a batch.
func (s *State) status(m *Model, b uint8) policy.Status {
	return s.led.lineage.Of(uint32(m.batches[b].window), uint32(b))
}

// stale reports whether a record of a batch is to be dropped.
func (m *Model) stale(s *State, b, gen uint8) bool {
	return s.led.lineage.Stale(m.seen(s, b, gen))
}

// settled reports whether nobody needs to work on a batch any more.
func (m *Model) settledBatch(s *State, b, gen uint8) bool {
	return m.stale(s, b, gen) || s.status(m, b).State >= policy.Added
}

// lowest is the first batch of the open window, in plan order, that is neither added nor dead.
func (m *Model) lowest(s *State) (uint32, bool) {
	for _, id := range m.planned(s.led.window) {
		if s.led.lineage.Of(s.led.lineage.Next, id).State < policy.Added {
			return id, true
		}
	}
	return 0, false
}

// planned are the batches of a window, none past the end.
func (m *Model) planned(window uint8) []uint32 {
	if int(window) >= len(m.windows) {
		return nil
	}
	return m.windows[window]
}
