package draft

import (
	"context"
	"fmt"
	"time"

	"penstock/stages/internal/runtime"
)

// Training stands still while it is saved. A save that takes as long as to be noticed is put off, so that saving has a fortieth of the
// time at most.
const (
	noticed = time.Second
	apart   = 40
)

// rested reports, at a time, whether enough has passed since a save that took so long and ended then.
func rested(now, ended time.Time, took time.Duration) bool {
	return took < noticed || now.Sub(ended) >= apart*took
}

// trySave saves. If that fails, the run goes on from memory, and after each window it is tried again.
func (t *trainer) trySave() {
	began := time.Now()
	failed, err := t.failed, t.save()
	t.savedAt, t.saving = time.Now(), time.Since(began)
	if err != nil {
		t.w.Log.Warn("checkpoint cannot be written: the run goes on from memory and tries again", "window", t.state.Window, "err", err)
	} else if failed {
		t.w.Log.Warn("checkpoints can be written again", "window", t.state.Window)
	}
	t.unsaved, t.failed = err != nil, err != nil
}

// saveAtLast saves what is complete, for a while if need be. What cannot be saved then is lost with this process.
func (t *trainer) saveAtLast(ctx context.Context) error {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	for end := time.Now().Add(t.w.AckWait); ; {
		err := t.save()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return runtime.Permanent(fmt.Errorf("the run is complete and cannot be saved: %w", err))
		}
		select {
		case <-retry.C:
		case <-ctx.Done():
			return err
		}
	}
}
