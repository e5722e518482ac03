package draft

import (
	"time"

	"penstock/stages/internal/worker"
)

// turned is told that work begins on a batch whose features were sent at a time in Unix nanoseconds. It books how long the rank
// took from one window to the next, if it did not wait for input as well.
func (t *trainer) turned(sent int64) {
	if t.closing.IsZero() {
		return
	}
	if sent < t.closing.UnixNano() {
		t.w.Status.Took(worker.Turn, 1, time.Since(t.closing))
	}
	t.closing = time.Time{}
}
