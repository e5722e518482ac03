package cli

import (
	"context"
	"fmt"
	"time"

	"penstock/broker"
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

// What a control record may ask for.
const (
	wantRun  = "run"
	wantStop = "stop"
)

// dialTimeout bounds the wait for a broker that a command expects to be there.
const dialTimeout = 3 * time.Second

// dialRun connects to the broker of a run that is going on.
func dialRun(ctx context.Context, f runtime.Flags, dir *rundir.Dir, client, role string) (*broker.Conn, error) {
	cfg, err := f.Resolve(dir)
	if err != nil {
		return nil, err
	}
	url := cfg.Broker.URL
	if url == "" {
		if url, err = dir.URL(); err != nil {
			return nil, err
		}
	}
	if url == "" {
		return nil, fmt.Errorf("run %s is not running: it has no nats.url", dir.Path())
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := broker.Dial(ctx, url, client, broker.Options{Access: runtime.Access(dir, cfg, role)})
	if err != nil {
		return nil, fmt.Errorf("run %s is not running, or its broker is down: %w", dir.Path(), err)
	}
	if cfg.Broker.URL == "" {
		return conn, nil
	}
	other, err := lastRun(ctx, conn.Board())
	if err == nil && other != "" && other != dir.Name() {
		err = fmt.Errorf("run %s is not running: what the server at %s holds is of run %s", dir.Path(), url, other)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// fillOpen asks the broker for each bucket's open roots. What it does not answer in time stays unknown.
func fillOpen(ctx context.Context, conn *broker.Conn, v *monitor.View) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	for _, b := range v.Buckets {
		c, err := conn.Credit(ctx, v.Gen, b.Name)
		if err != nil {
			continue
		}
		v.Fill(b.Name, c.Open, int(c.Queued))
	}
}
