package policy

import (
	"fmt"
	"slices"

	"penstock/schema"
)

// member reports whether a rank may claim and add. A member without an incarnation is any process of its rank.
func (l *Lineage) member(rank string, incarnation uint64) bool {
	return l.Members == nil || slices.Contains(l.Members, Member{rank, incarnation}) || slices.Contains(l.Members, Member{rank, 0})
}

// Busy reports whether another member has claimed a batch: its hop is parked until that rank has added it or is put out.
func (l *Lineage) Busy(b schema.Batch, owner uint64) bool {
	s := l.Of(b.Window, b.Index)
	return l.Members != nil && !l.Stale(b) && s.State == Claimed && s.Owner != owner
}

// membersOf returns a rank epoch's members, not nil. Without incarnations they are 0.
func membersOf(r schema.RankEpoch) []Member {
	ms := make([]Member, len(r.Members))
	for i, name := range r.Members {
		ms[i].Rank = name
		if i < len(r.Incarnations) {
			ms[i].Incarnation = r.Incarnations[i]
		}
	}
	return ms
}

// Disagreement says that two ranks reduced one window to different sums: their weights are about to part.
type Disagreement struct {
	Window       uint32
	Rank, Other  string
	Hash, Others uint64
}

func (d *Disagreement) Error() string {
	return fmt.Sprintf("window %d: %s reduced it to a sum with hash %016x, %s to %016x: the ranks' weights would differ", d.Window, d.Rank, d.Hash, d.Other, d.Others)
}

// Agreed reports whether every member has prepared the open window in the rank epoch in force; if two of those that
// have differ, the error is a [Disagreement].
func (l *Lineage) Agreed() (bool, error) {
	all := true
	var first *schema.Prepared
	for _, m := range l.Members {
		p, ok := l.prepared[m.Rank]
		switch {
		case !ok || p.Incarnation != m.Incarnation:
			all = false
		case first == nil:
			first = &p
		case p.Hash != first.Hash:
			return false, &Disagreement{p.Window, first.Rank, p.Rank, first.Hash, p.Hash}
		}
	}
	return all, nil
}
