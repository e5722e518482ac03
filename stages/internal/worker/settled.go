package worker

import (
	"context"

	"penstock/broker/policy"
	"penstock/schema"
)

// Settled reports whether nobody needs to work on a batch any more. With several ranks a batch is in a sum only as long
// as the rank lives whose sum it is, and what comes back after its death may be here before the news of it: so that much
// is believed only after the ledger has been read to its end.
func (w *Worker) Settled(ctx context.Context, b schema.Batch) (bool, error) {
	settled, final := w.settled(b)
	if !settled || final {
		return settled, nil
	}
	end, err := w.Conn.Ledger().End(ctx)
	if err == nil {
		err = w.Ledger.Reach(ctx, end)
	}
	settled, _ = w.settled(b)
	return settled, err
}

// settled is what has been read so far, and whether it can change.
func (w *Worker) settled(b schema.Batch) (settled, final bool) {
	w.Ledger.View(func(l *policy.Lineage) {
		settled = l.Settled(b)
		final = l.Members == nil || l.Stale(b) || l.Of(b.Window, b.Index).State == policy.Dead
	})
	return settled, final
}
