package worker

import (
	"context"
	"time"

	"penstock/broker"
	"penstock/schema"
)

// Board keys that more than one package uses.
const (
	KeyPlan     = "plan"
	KeyProgress = "progress"
	KeyControl  = "control"
)

// watchControl returns ErrStop once the run is asked to stop, after this process started: an old wish left on the
// board does not end a resumed run.
func (w *Worker) watchControl(ctx context.Context) error {
	began := time.Now()
	return w.Conn.Board().Watch(ctx, KeyControl, func(h broker.Hint) error {
		c, ok := h.Record.(schema.Control)
		if ok && c.Want == "stop" && c.Run == w.Run.Name() && h.Stored.After(began) {
			return ErrStop
		}
		return nil
	})
}
