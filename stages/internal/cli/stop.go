package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"penstock/broker"
	"penstock/schema"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

// stopPoll is how often stop looks whether the processes are gone.
const stopPoll = 50 * time.Millisecond

func newStop(s streams) *cobra.Command {
	var f runtime.Flags
	var within time.Duration
	cmd := &cobra.Command{
		Use:   "stop",
		Short: "Let the run finish what it is doing, write a checkpoint and end",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if within <= 0 {
				return fmt.Errorf("--within %v: the end takes some time", within)
			}
			dir, err := openRun(f)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			return stop(ctx, f, dir, s.out)
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().DurationVar(&within, "within", 2*time.Minute, "how long to wait for the end")
	return cmd
}

// stop asks for the end on the board and waits until no process holds the run. A broker that nobody supervises is ended
// last, by signal.
func stop(ctx context.Context, f runtime.Flags, dir *rundir.Dir, out io.Writer) error {
	holders, err := dir.Holders()
	if err != nil {
		return err
	}
	if len(holders) == 0 {
		return fmt.Errorf("run %s is not running", dir.Path())
	}
	conn, err := dialRun(ctx, f, dir, "stop", broker.RoleUp)
	if err != nil {
		return fmt.Errorf("%w; still alive: %s", err, list(holders))
	}
	err = conn.Board().Put(ctx, "control", schema.Control{Run: dir.Name(), Want: wantStop})
	conn.Close()
	if err != nil {
		return fmt.Errorf("ask the stages to stop: %w", err)
	}
	fmt.Fprintf(out, "asked %s to stop\n", list(holders))
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for signalled := false; ; {
		if holders, err = dir.Holders(); err != nil {
			return err
		}
		switch {
		case len(holders) == 0:
			fmt.Fprintf(out, "stopped: go on with `penstock up --run %s`\n", dir.Path())
			return nil
		case len(holders) == 1 && holders[0].Name == "broker" && !signalled:
			signalled = true
			if err := endBroker(holders[0].PID); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("still running: %s: %w", list(holders), context.Cause(ctx))
		}
	}
}

func endBroker(pid int) error {
	p, err := os.FindProcess(pid)
	if err == nil && pid > 0 {
		err = p.Signal(syscall.SIGTERM)
	}
	if err != nil && err != os.ErrProcessDone {
		return fmt.Errorf("end the broker, process %d: %w", pid, err)
	}
	return nil
}

func list(hs []rundir.Holder) string {
	var words []string
	for _, h := range hs {
		words = append(words, fmt.Sprintf("%s (%d)", h.Name, h.PID))
	}
	return strings.Join(words, ", ")
}
