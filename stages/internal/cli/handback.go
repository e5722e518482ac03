package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"penstock/broker/slots"
)

// handBackWait bounds what a restart waits for; after it, the broker's AckWait gives the work out again.
const handBackWait = 2 * time.Second

// handBack returns the roots of the batches that lay in a dead instance's slots, so that they are given out again at
// once: its memory is gone, and whoever holds a reference to it will find out. An instance without a pool has no journal.
func (r *running) handBack(ctx context.Context, instance string) {
	ctx, cancel := context.WithTimeout(ctx, handBackWait)
	defer cancel()
	j, err := slots.ReadJournal(r.dir.Journal(instance))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, u := range j.Uses {
		err = errors.Join(err, r.conn.NakRoot(ctx, u.Root, 0))
	}
	if err != nil {
		r.log.Warn("hand back work", "instance", instance, "err", err)
	}
	if n := len(j.Uses); n > 0 {
		r.note(fmt.Sprintf("%s: its work is handed back, batches: %d", instance, n))
	}
}
