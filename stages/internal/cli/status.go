package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"penstock/broker"
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

func newStatus(s streams) *cobra.Command {
	var f runtime.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the live state of each bucket, credit, slot and stage",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := openRun(f)
			if err != nil {
				return err
			}
			return status(cmd.Context(), f, dir, s.out, asJSON)
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// runStatus is what status reports: the board of a live run, the summary of a finished one, or what the files of a stopped
// one say.
type runStatus struct {
	Dir     string          `json:"dir"`
	Running bool            `json:"running"`
	Live    *monitor.View   `json:"live,omitempty"`
	Summary json.RawMessage `json:"summary,omitempty"`
	Stopped *stoppedRun     `json:"stopped,omitempty"`
	PIDs    map[string]int  `json:"pids"`
}

func status(ctx context.Context, f runtime.Flags, dir *rundir.Dir, out io.Writer, asJSON bool) error {
	st := runStatus{Dir: dir.Path()}
	var err error
	if st.PIDs, err = dir.PIDs(); err != nil {
		return err
	}
	if _, err := f.Resolve(dir); err != nil {
		return err
	}
	conn, dialErr := dialRun(ctx, f, dir, "status", broker.RoleObserver)
	if dialErr == nil {
		defer conn.Close()
		v, err := observe(ctx, conn)
		if err != nil {
			return err
		}
		st.Running, st.Live = true, &v
	} else if err := st.rest(dir, dialErr); err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, st)
	}
	fmt.Fprintln(out, "run", st.Dir)
	switch {
	case st.Stopped != nil:
		return st.Stopped.print(out, dir)
	case st.Live == nil:
		fmt.Fprintln(out, "finished")
		return printSummary(out, dir, false)
	}
	width, _ := room(out)
	_, err = fmt.Fprintln(out, strings.Join(st.Live.Table(width), "\n"))
	return err
}

// rest fills in what is known of a run whose broker was not reached because of why. One that processes still work on has
// no other state: why is the error.
func (st *runStatus) rest(dir *rundir.Dir, why error) error {
	holders, err := dir.Holders()
	if err != nil {
		return err
	}
	if len(holders) > 0 {
		return fmt.Errorf("%w; still alive: %s", why, list(holders))
	}
	b, err := os.ReadFile(dir.Summary())
	if err == nil {
		st.Summary = b
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the summary: %w", err)
	}
	s, err := readStopped(dir)
	st.Stopped = &s
	return err
}

// observe reads the board once.
func observe(ctx context.Context, conn *broker.Conn) (monitor.View, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	hints, err := conn.Board().List(ctx, ">")
	if err != nil {
		return monitor.View{}, fmt.Errorf("read the board: %w", err)
	}
	t := monitor.NewTracker()
	for _, h := range hints {
		t.Apply(h.Record)
	}
	v := t.View(time.Now())
	fillOpen(ctx, conn, &v)
	return v, nil
}
