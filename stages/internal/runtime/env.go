// Package runtime is what every stage process has in common: its flags, its configuration and run directory, where
// the broker is, its log, signals and exit code.
//
// A stage started by hand is the same as one started by `penstock up`: it finds its run directory, writes or reads the
// configuration there, and waits, saying for what, until the broker's address appears.
package runtime

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"penstock/broker"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/internal/rundir"
)

// Env is what a stage runs in.
type Env struct {
	Config   schema.Config // validated; flags are applied
	Run      *rundir.Dir
	Stage    string // broker, batch, target, pack or draft
	Instance string // unique in the run, such as target-2
	Device   string // cpu, or cuda[:K]
	Log      *slog.Logger

	// For tests; nil in a process of its own.
	Fault broker.Fault                              // what becomes of the messages that this stage sends and takes
	Open  func(name string) (kernels.Device, error) // in place of backend.Open
}

// Instance is the name of a stage's nth process, counted from 1. There is one broker and one batch.
func Instance(stage string, n int) string {
	if stage == "broker" || stage == "batch" {
		return stage
	}
	return fmt.Sprintf("%s-%d", stage, n)
}

const (
	pollEvery = 20 * time.Millisecond
	sayAfter  = time.Second      // a wait this long is worth a line
	sayEvery  = 30 * time.Second // and another this often
)

// NATS returns the broker's address: that of --nats or of the configuration, else the one that the run's broker has
// written to nats.url, for which it waits. That of a run which has ended may not come, or nobody may be there any more.
func (e *Env) NATS(ctx context.Context) (string, error) {
	if _, err := os.Stat(e.Run.Summary()); err == nil {
		e.Log.Info("the run has ended: this goes on with it if the other stages do; `penstock up --run " + e.Run.Path() + "` starts them")
	}
	if e.Config.Broker.URL != "" {
		return e.Config.Broker.URL, nil
	}
	var url string
	err := await(ctx, e.Log, "the broker's address in "+e.Run.URLFile(), func() (done bool, err error) {
		url, err = e.Run.URL()
		return url != "", err
	})
	return url, err
}

// await polls ready until it says so, fails, or ctx ends. A wait that lasts is logged with what it is for.
func await(ctx context.Context, log *slog.Logger, what string, ready func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	say := time.Now().Add(sayAfter)
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		if now := time.Now(); now.After(say) {
			log.Info("waiting", "for", what)
			say = now.Add(sayEvery)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
