package policy

import "penstock/schema"

// Status is what the ledger says of one batch of an open window.
type Status struct {
	State    State
	Rank     string // of the claim or the addition
	Owner    uint64 // incarnation of that rank
	Epoch    uint32 // rank epoch of the claim or the addition
	Suspects int    // how often its features were bad
	From     string // instance that computed the bad features
	Seq      uint64 // ledger sequence of the last record, for compare-and-set
}

// State is the progress of a batch.
type State uint8

// The states of a batch of an open window, in the order in which they may follow each other.
const (
	Planned State = iota
	Claimed
	Added
	Dead
)

// Lineage is the surviving history as the ledger's records tell it, applied in stream order. The zero value is
// the state before the first generation.
type Lineage struct {
	Gen   uint32
	Start uint32 // first window of the generation
	Next  uint32 // first window that has not committed
	Epoch uint32 // rank epoch in force
	// Members are the ranks of that epoch in its order; nil before the first one, when any rank is a member.
	Members []Member
	Control uint64 // ledger sequence of the last rank epoch of window Next, 0 if there is none, for compare-and-set
	Closed  uint32 // rank epoch in which window Next-1 committed

	open     map[uint32]map[uint32]Status
	prepared map[string]schema.Prepared // of window Next and the rank epoch in force, by rank
}

// Member is one process of the rank group. A rank that was started again is another member.
type Member struct {
	Rank        string
	Incarnation uint64
}

// Apply folds one ledger record, with its stream sequence, into the state. It reports whether the generation or the
// committed windows changed. Records of an older generation, and windows committed out of order, change nothing.
func (l *Lineage) Apply(rec schema.Record, seq uint64) bool {
	switch r := rec.(type) {
	case schema.Gen:
		if r.Gen <= l.Gen {
			return false
		}
		*l = Lineage{Gen: r.Gen, Start: r.Start, Next: r.Start}
		return true
	case schema.Claim:
		l.update(r.Batch, seq, func(s *Status) {
			switch {
			case s.State > Claimed:
			case r.Rank != "" && l.member(r.Rank, r.Incarnation):
				s.State, s.Rank, s.Owner, s.Epoch = Claimed, r.Rank, r.Incarnation, r.RankEpoch
			default: // given back, or the claim of a rank that was put out meanwhile
				s.State, s.Rank, s.Owner = Planned, "", 0
			}
		})
	case schema.Added:
		l.update(r.Batch, seq, func(s *Status) {
			if s.State != Dead && l.member(r.Rank, r.Incarnation) {
				s.State, s.Rank, s.Owner, s.Epoch = Added, r.Rank, r.Incarnation, r.RankEpoch
			}
		})
	case schema.Suspect:
		l.update(r.Batch, seq, func(s *Status) {
			s.Suspects++
			s.From = r.From
			if s.State == Claimed { // what was claimed is no good: whoever gets the next features works on them
				s.State, s.Rank, s.Owner = Planned, "", 0
			}
		})
	case schema.Dead:
		l.update(r.Batch, seq, func(s *Status) { s.State = Dead })
	case schema.RankEpoch:
		if r.Gen == l.Gen && r.RankEpoch > l.Epoch {
			l.Epoch, l.Members, l.prepared = r.RankEpoch, membersOf(r), nil
			if r.Window == l.Next {
				l.Control = seq
			}
			l.voidOutside()
		}
	case schema.Prepared:
		if r.Gen == l.Gen && r.Window == l.Next && r.RankEpoch == l.Epoch {
			if l.prepared == nil {
				l.prepared = map[string]schema.Prepared{}
			}
			l.prepared[r.Rank] = r
		}
	case schema.Commit:
		if r.Gen != l.Gen || r.Window != l.Next {
			return false
		}
		delete(l.open, r.Window)
		l.Next, l.Closed, l.Control, l.prepared = r.Window+1, r.RankEpoch, 0, nil
		return true
	}
	return false
}

// Of returns what the ledger says of a batch; a batch it does not name is Planned.
func (l *Lineage) Of(window, index uint32) Status { return l.open[window][index] }

// Committed reports whether the window has committed in the surviving lineage.
func (l *Lineage) Committed(window uint32) bool { return window < l.Next }

// Stale reports whether a record of this batch is to be dropped: an older generation or a committed window.
func (l *Lineage) Stale(b schema.Batch) bool { return b.Gen != l.Gen || l.Committed(b.Window) }

// Complete reports whether each planned id of the window is added or dead, and splits them, in plan order.
func (l *Lineage) Complete(window uint32, planned []uint32) (added, dead []uint32, ok bool) {
	for _, id := range planned {
		switch l.Of(window, id).State {
		case Added:
			added = append(added, id)
		case Dead:
			dead = append(dead, id)
		default:
			return nil, nil, false
		}
	}
	return added, dead, true
}

// Unclaimed counts a window's planned batches that nobody has claimed, nor given up.
func (l *Lineage) Unclaimed(window uint32, planned []uint32) (n int) {
	for _, id := range planned {
		if l.Of(window, id).State < Claimed {
			n++
		}
	}
	return n
}

// update changes a batch's status once per ledger sequence, so that an entry may be applied again.
func (l *Lineage) update(b schema.Batch, seq uint64, f func(*Status)) {
	if l.Stale(b) {
		return
	}
	if l.open == nil {
		l.open = map[uint32]map[uint32]Status{}
	}
	w := l.open[b.Window]
	if w == nil {
		w = map[uint32]Status{}
		l.open[b.Window] = w
	}
	s := w[b.Index]
	if seq <= s.Seq {
		return
	}
	f(&s)
	s.Seq = seq
	w[b.Index] = s
}

// voidOutside returns the claims and additions of ranks that are no longer members to Planned; their partial sums died with them.
func (l *Lineage) voidOutside() {
	for _, w := range l.open {
		for id, s := range w {
			if (s.State == Claimed || s.State == Added) && !l.member(s.Rank, s.Owner) {
				s.State, s.Rank, s.Owner = Planned, "", 0
				w[id] = s
			}
		}
	}
}
