package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/worker"
)

// aliveFor is how long the stages of a run that goes on are silent at most: they report every second.
const aliveFor = 4 * time.Second

// alone fails if another run goes on at the external server that the configuration names: its streams hold one run.
func (r *running) alone(ctx context.Context) error {
	if r.cfg.Broker.URL == "" {
		return nil
	}
	board := r.conn.Board()
	other, err := lastRun(ctx, board)
	if err != nil || other == "" || other == r.dir.Name() {
		return err
	}
	former, err := board.List(ctx, "stage.*")
	if err != nil {
		return err
	}
	seen := map[string]uint64{}
	for _, h := range former {
		seen[h.Key] = h.Seq
	}
	ctx, cancel := context.WithTimeout(ctx, aliveFor)
	defer cancel()
	alive := errors.New("alive")
	err = board.Watch(ctx, "stage.*", func(h broker.Hint) error {
		if h.Seq > seen[h.Key] {
			return alive
		}
		return nil
	})
	switch {
	case errors.Is(err, alive):
		return shared(other, r.cfg.Broker.URL)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil // the run is over
	}
	return err
}

// lastRun is the name of the run that the board is about, "" before there was one.
func lastRun(ctx context.Context, board broker.Board) (string, error) {
	for _, key := range []string{worker.KeyPlan, worker.KeyControl} {
		hints, err := board.List(ctx, key)
		if err != nil {
			return "", err
		}
		for _, h := range hints {
			switch rec := h.Record.(type) {
			case schema.PlanInfo:
				return rec.Run, nil
			case schema.Control:
				return rec.Run, nil
			}
		}
	}
	return "", nil
}

// shared says that another run has the server's streams.
func shared(other, url string) error {
	return fmt.Errorf("run %s goes on at %s, and a server's streams hold one run: stop it or wait for its end, or use another server, or another account of this one", other, url)
}
