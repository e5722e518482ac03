package draft

import (
	"context"
	"fmt"
	"time"

	"penstock/stages/internal/runtime"
)

// Training stands still while it is saved. The save behind one that took as long as to be noticed is put off, so that saving has a
// fortieth of the time, but not for longer than latest: what a crash costs is bounded.
const (
	noticed = time.Second
	apart   = 40
	latest  = 10 * time.Minute
)

// rested reports, at a time, whether enough has passed since a save that took so long and ended then.
func rested(now, ended time.Time, took time.Duration) bool {
	return took < noticed || now.Sub(ended) >= min(apart*took, latest)
}

// trySave saves. If that fails, the run goes on from memory, and after each window it is tried again.
func (t *trainer) trySave() {
	began := time.Now()
	failed, err := t.failed, t.save()
	if err != nil {
		t.w.Log.Warn("checkpoint cannot be written: the run goes on from memory and tries again", "window", t.state.Window, "err", err)
	} else if failed {
		t.w.Log.Warn("checkpoints can be written again", "window", t.state.Window)
	}
	t.unsaved, t.failed = err != nil, err != nil
	t.savedAt, t.saving = time.Now(), time.Since(began)
	if t.failed {
		t.saving = 0 // nothing is saved: it is tried again soon
	}
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
