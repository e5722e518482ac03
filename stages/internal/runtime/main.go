package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"penstock/stages/internal/rundir"
)

// lockPatience is how long an instance waits for a dying predecessor to let its name go.
const lockPatience = 5 * time.Second

// Main runs a stage as a process and does not return. SIGTERM or SIGINT ends run's context, so that it drains; a
// second one ends the process. The end is logged in one line, and the exit code says what to make of a failure.
func Main(stage string, run func(ctx context.Context, env *Env) error) {
	os.Exit(execute(stage, os.Args[1:], os.Stderr, run))
}

func execute(stage string, args []string, stderr io.Writer, run func(context.Context, *Env) error) int {
	var f Flags
	fs := pflag.NewFlagSet(stage, pflag.ContinueOnError)
	fs.SetOutput(stderr)
	f.Register(fs)
	fs.StringVar(&f.Instance, "instance", Instance(stage, 1), "name of this process, unique in the run")
	switch err := fs.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, stage+":", err)
		return ExitPermanent
	case fs.NArg() > 0:
		fmt.Fprintf(stderr, "%s: unexpected argument %q\n", stage, fs.Arg(0))
		return ExitPermanent
	}
	log := slog.New(slog.NewTextHandler(stderr, nil)).With("instance", f.Instance)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var got atomic.Value
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case sig := <-signals:
			got.Store(sig)
			log.Info("draining", "signal", sig.String())
			cancel()
			signal.Stop(signals) // the next one ends the process
		case <-ctx.Done():
		}
	}()

	err := enter(ctx, stage, f, log, run)
	sig, _ := got.Load().(os.Signal)
	code := exitCode(err, sig)
	switch {
	case err == nil:
		log.Info("done")
	case code != 128+int(syscall.SIGTERM) && code != 128+int(syscall.SIGINT):
		log.Error("failed", "err", err)
	}
	return code
}

// enter prepares the environment and runs the stage in it.
func enter(ctx context.Context, stage string, f Flags, log *slog.Logger, run func(context.Context, *Env) error) error {
	dir, err := f.stageDir(ctx, log)
	if err != nil {
		return err
	}
	cfg, err := f.Resolve(dir)
	if err != nil {
		return Permanent(err)
	}
	var lock *rundir.Lock
	deadline := time.Now().Add(lockPatience)
	err = await(ctx, log, "the former "+f.Instance+" to end", func() (bool, error) {
		var err error
		lock, err = dir.LockInstance(f.Instance)
		if errors.Is(err, rundir.ErrLocked) && time.Now().Before(deadline) {
			return false, nil
		}
		return err == nil, Permanent(err)
	})
	if err != nil {
		return err
	}
	defer lock.Release()
	return run(ctx, &Env{Config: cfg, Run: dir, Stage: stage, Instance: f.Instance, Device: cfg.Device, Log: log})
}

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }
