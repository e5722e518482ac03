package draft

import (
	"time"

	"penstock/stages/internal/worker"
)

// The parts of a turn, in their order.
const (
	turnReduce = "reduce" // until this rank has the sum over all of them
	turnCheck  = "check"  // the sum's checksum
	turnAgree  = "agree"  // until the ledger has that of every rank
	turnCommit = "commit" // until the ledger has the commit
	turnStep   = "step"   // of the optimizer
	turnTell   = "tell"   // files, evaluation, ranks that join
	turnOpen   = "open"   // the next window, with nothing in its sum
	turnClaim  = "claim"  // until the first batch is claimed
)

// turn is a rank's way from one window's last gradient to the next one's first batch.
type turn struct {
	began, since time.Time // the whole, and the part that is under way; zero: none is
	parts        []part
}

type part struct {
	what string
	took time.Duration
}

func (u *turn) begin() {
	now := time.Now()
	*u = turn{now, now, u.parts[:0]}
}

// did ends a part and begins the next.
func (u *turn) did(what string) {
	if u.began.IsZero() {
		return
	}
	now := time.Now()
	u.parts = append(u.parts, part{what, now.Sub(u.since)})
	u.since = now
}

// turned is told that work begins on a batch of a window whose features were sent at a time in Unix nanoseconds. It books how
// long the rank took from one window to the next, in all and by part, if it neither waited for input as well nor left any.
func (t *trainer) turned(window uint32, sent int64) {
	u := &t.turn
	if u.began.IsZero() {
		return
	}
	u.did(turnClaim)
	if sent < u.began.UnixNano() && !t.deference.hasLeft(window) {
		t.w.Status.Took(worker.Turn, 1, u.since.Sub(u.began))
		for _, p := range u.parts {
			t.w.Status.Took(worker.TurnPart+p.what, 1, p.took)
			t.w.Metrics.Turn(p.what, p.took.Seconds())
		}
	}
	u.began = time.Time{}
}
