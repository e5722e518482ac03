package batch

import (
	"context"
	"fmt"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// sample is how many batches a share of rejects is at least taken of: one of the first three proves nothing.
const sample = 100

// countEvery is how often the ledger is asked for rejects.
const countEvery = 250 * time.Millisecond

// rejects counts the batches that the ledger rejects in the surviving lineage.
type rejects struct {
	share  float64 // more than this ends the run
	gen    uint32
	next   uint32         // first window that has not committed
	done   int            // batches of committed windows
	at     map[uint32]int // batches of a committed window
	dead   map[uint32]map[uint32]bool
	reason string // of the latest
}

// watchRejects returns an error that names the share and the latest reason once too many batches are rejected: then the
// fault is not in a few documents.
func watchRejects(ctx context.Context, w *worker.Worker) error {
	r := rejects{share: w.Config.Train.MaxRejected, at: map[uint32]int{}, dead: map[uint32]map[uint32]bool{}}
	return w.Conn.Ledger().Trail(ctx, countEvery, func(e broker.Entry) error { return r.apply(e.Record) })
}

func (r *rejects) apply(rec schema.Record) error {
	switch rec := rec.(type) {
	case schema.Gen:
		if rec.Gen > r.gen {
			r.open(rec)
		}
	case schema.Commit:
		if rec.Gen == r.gen && rec.Window == r.next {
			r.next++
			r.at[rec.Window] = len(rec.Batches) + len(rec.Dead)
			r.done += r.at[rec.Window]
		}
	case schema.Dead:
		if rec.Gen != r.gen || rec.Window < r.next {
			return nil
		}
		if r.dead[rec.Window] == nil {
			r.dead[rec.Window] = map[uint32]bool{}
		}
		r.dead[rec.Window][rec.Index] = true
		r.reason = rec.Reason
		return r.judge()
	}
	return nil
}

// open voids what older generations did from the start window on.
func (r *rejects) open(g schema.Gen) {
	for w, n := range r.at {
		if w >= g.Start {
			r.done -= n
			delete(r.at, w)
		}
	}
	for w := range r.dead {
		if w >= g.Start {
			delete(r.dead, w)
		}
	}
	r.gen, r.next = g.Gen, g.Start
}

func (r *rejects) judge() error {
	n := 0
	for _, w := range r.dead {
		n += len(w)
	}
	of := max(r.done+n, sample)
	if float64(n) <= r.share*float64(of) {
		return nil
	}
	return runtime.Permanent(fmt.Errorf("%d of %d batches are rejected, more than train.max_rejected %g: the last one because %s",
		n, r.done+n, r.share, r.reason))
}
