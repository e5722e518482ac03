package policy

// Reserve says who may take the last free slot of a pool, so that the oldest open window always gets through. The plan's order
// within a window does not count, in deterministic order either: the lowest index that is not added moves back when a rank dies,
// and what has the last slots by then could neither go on nor make room.
type Reserve struct {
	Oldest uint32 // oldest window that has not committed
}

// Admit reports whether a batch of a window may take a slot of a pool with free slots left. One of a later window than the
// oldest open one may not take the last.
func (r Reserve) Admit(window uint32, free int) bool {
	return free > 1 || free == 1 && window <= r.Oldest
}

// ReserveFor returns the rule as the ledger stands.
func ReserveFor(l *Lineage) Reserve { return Reserve{Oldest: l.Next} }
