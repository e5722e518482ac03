package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	ranks "penstock/stages/internal/group"
)

// handBackWait bounds what a restart waits for; after it, the broker's AckWait gives the work out again.
const handBackWait = 2 * time.Second

// handBack returns the roots of the batches that a dead instance had in hand, so that they are given out again at once:
// its memory is gone, and whoever holds a reference to it will find out. A dead rank is put out of the group before. An
// instance that held nothing has no journal.
func (r *running) handBack(ctx context.Context, instance string) {
	ctx, cancel := context.WithTimeout(ctx, handBackWait)
	defer cancel()
	back := func() (int, error) { return ranks.HandBack(ctx, r.conn, r.dir.Journal(instance), 0) }
	if strings.HasPrefix(instance, "draft-") {
		back = func() (int, error) {
			v, err := ranks.Read(ctx, r.conn.Ledger())
			if err != nil {
				return 0, err
			}
			return ranks.BuryRank(ctx, r.conn, v, r.dir.Journal(instance), instance)
		}
	}
	n, err := back()
	if err != nil {
		r.log.Warn("hand back work", "instance", instance, "err", err)
	}
	if n > 0 {
		r.note(fmt.Sprintf("%s: its work is handed back, batches: %d", instance, n))
	}
}
