package policy

// Reserve says who may take the last free slot of a pool, so that the oldest open window always gets through.
type Reserve struct {
	Deterministic bool
	Oldest        uint32 // oldest window that has not committed
	Lowest        uint32 // deterministic: the lowest plan index that is neither added nor dead
}

// Admit reports whether a batch may take a slot of a pool with free slots left. A batch of a later window than the
// oldest open one may not take the last; in deterministic order only the lowest index may.
func (r Reserve) Admit(window, index uint32, free int) bool {
	if free <= 0 {
		return false
	}
	if free > 1 {
		return true
	}
	if r.Deterministic {
		return index <= r.Lowest
	}
	return window <= r.Oldest
}

// ReserveFor returns the rule as the ledger stands. planned are the batches of the oldest open window, in plan order;
// only deterministic order looks at them.
func ReserveFor(l *Lineage, planned []uint32, deterministic bool) Reserve {
	r := Reserve{Deterministic: deterministic, Oldest: l.Next}
	if deterministic {
		r.Lowest, _ = l.Lowest(l.Next, planned)
	}
	return r
}
