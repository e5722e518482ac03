package worker

import (
	"time"

	"penstock/stages/internal/account"
)

// A stretch of work may take this many times AckWait before any was measured, and then this many times the longest one.
const (
	unmeasured = 10
	measured   = 10
)

// Hung reports whether the process works on one thing for so long that it must be taken for stuck. Then it no longer marks
// what it holds, so that others get that, and says so on the board, so that the supervisor replaces it.
func (w *Worker) Hung() bool { return hung(w.Book, w.AckWait) }

func hung(b *account.Book, ackWait time.Duration) bool {
	activity, lasting, longest := b.Running()
	if activity != account.Compute && activity != account.Copy { // waiting is no work; a step may export and evaluate
		return false
	}
	limit := unmeasured * ackWait
	if longest > 0 {
		limit = max(ackWait, measured*longest)
	}
	return lasting > limit
}
