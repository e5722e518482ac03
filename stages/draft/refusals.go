package draft

import "fmt"

// mostRefusals is how often in a row a rank alone begins anew over what the ledger refuses. Whoever goes on refusing does so
// for a reason that no other generation mends.
const mostRefusals = 5

// refusals counts those that no window further than all before has followed. What a generation commits again is no progress.
type refusals struct {
	n    int
	next uint32 // the first window that has not committed, at the furthest
}

// again takes in a refusal by a ledger whose first window that has not committed is next. It returns an error when there have
// been enough.
func (r *refusals) again(next uint32, err error) error {
	if next > r.next {
		*r = refusals{next: next}
	}
	if r.n++; r.n < mostRefusals {
		return nil
	}
	return fmt.Errorf("window %d has been refused %d times in a row, each time in a new generation: find out who else writes to the ledger: %w", r.next, r.n, err)
}
