package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"penstock/schema"
	"penstock/schema/hf"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/doctor"
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/supervise"
	"penstock/stages/internal/worker"
)

func newUp(s streams) *cobra.Command {
	var f runtime.Flags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the broker and all stages, show progress, end when the drafter is trained",
		Long: "up trains a drafter: it starts the broker and every stage as a process of its own, restarts those that die, and\n" +
			"ends when the drafter is trained, exported and measured. Without --run it makes a new directory under runs/; on an existing\n" +
			"run directory it goes on where that run stopped.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			progress := s.out
			if asJSON {
				progress = s.err
			}
			return up(cmd.Context(), f, newDisplay(progress), s.out, asJSON)
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().Lookup("run").Usage = "run `DIR`, new or to go on with (default: a new one under " + rundir.Root + "/)"
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the summary as JSON on standard output, progress on standard error")
	return cmd
}

// up trains in the flags' run directory and reports.
func up(ctx context.Context, f runtime.Flags, d *display, out io.Writer, asJSON bool) error {
	dir, err := upDir(f)
	if err != nil {
		return err
	}
	_, err = train(ctx, f, dir, d, func(schema.Record) {})
	if errors.Is(err, errStopped) {
		d.say("stopped: go on with `penstock up --run %s`", dir.Path())
		return nil
	}
	if err != nil {
		return err
	}
	return printSummary(out, dir, asJSON)
}

// outcome is what a finished run leaves in memory.
type outcome struct {
	view monitor.View
	peak int64 // most memory of all processes together, in bytes
}

// train runs all processes of a run until the drafter is trained, and ends them. Of a new run that cannot begin, nothing
// stays. watch is given every record of the board.
func train(ctx context.Context, f runtime.Flags, dir *rundir.Dir, d *display, watch func(schema.Record)) (outcome, error) {
	defer outliveReader()()
	lock, err := dir.Lock()
	if err != nil {
		return outcome{}, err
	}
	defer lock.Release()
	o, err := start(ctx, f, dir, d, watch)
	if err != nil && inVain(dir, err, ctx.Err() != nil) {
		if uerr := dir.Unmake(); uerr != nil {
			return o, errors.Join(err, uerr)
		}
		if dir.New() {
			d.say("nothing was begun: %s is left as it was", dir.Path())
		}
	}
	return o, err
}

// start is train on a directory that nobody else uses.
func start(ctx context.Context, f runtime.Flags, dir *rundir.Dir, d *display, watch func(schema.Record)) (outcome, error) {
	cfg, err := f.Resolve(dir)
	if err != nil {
		return outcome{}, err
	}
	ps, err := fleet(f, dir, cfg)
	if err != nil {
		return outcome{}, err
	}
	if err := dir.ForgetURL(); err != nil {
		return outcome{}, err
	}
	d.say("run %s", dir.Path())
	needs, err := plan(ctx, cfg, dir, d)
	if err != nil {
		return outcome{}, err
	}
	for _, w := range cfg.Warnings() {
		d.say("warning: %s", w)
	}
	r, err := newRunning(dir, cfg, needs, d)
	if err != nil {
		return outcome{}, err
	}
	r.watch = watch
	err = r.run(ctx, ps)
	err = errors.Join(err, r.close(err))
	if err == nil {
		r.sayPeaks()
	}
	return outcome{r.view.View(time.Now()), r.peak}, err
}

// plan shows what the run is to hold on its GPUs, by purpose, refuses what does not fit, and returns what each is to hold.
// How much that is depends on the largest batches, so it prepares the data.
func plan(ctx context.Context, cfg schema.Config, dir *rundir.Dir, d *display) ([]doctor.Need, error) {
	if !backend.IsGPU(cfg.Device) {
		return nil, nil
	}
	run, _, err := worker.Prepare(ctx, cfg, dir)
	if err != nil {
		return nil, err
	}
	shapes := run.Shapes()
	if err := run.Store.Close(); err != nil {
		return nil, err
	}
	t, err := hf.OpenTarget(cfg.Target.Dir)
	if err != nil {
		return nil, runtime.Permanent(err)
	}
	defer t.Close()
	items := doctor.Plan(cfg, t, shapes)
	d.say("memory on %s: %s", cfg.Device, doctor.Purposes(items))
	fits := doctor.FitsGPU(cfg, items)
	if len(fits) > 1 {
		for _, c := range fits {
			d.say("%s: %s", c.Name, c.Detail)
		}
	}
	return doctor.Needs(cfg, items), runtime.Permanent(fits.Err())
}

// inVain says that a run has not begun, and that trying again would end alike: a process exited with the code for that, or
// none was started. One that somebody ended after it had started processes may go on.
func inVain(dir *rundir.Dir, err error, interrupted bool) bool {
	gen, gerr := dir.Generation()
	if gerr != nil || gen > 0 || errors.Is(err, errStopped) {
		return false
	}
	if interrupted {
		_, serr := os.Stat(dir.PIDFile())
		return errors.Is(serr, fs.ErrNotExist)
	}
	var f *supervise.Failure
	return !errors.As(err, &f) || f.Code == runtime.ExitPermanent
}

// upDir opens or creates the directory that `up` runs in. A new one is made only for a configuration that is valid.
func upDir(f runtime.Flags) (*rundir.Dir, error) {
	if f.Run != "" {
		dir, err := rundir.Open(f.Run)
		if err == nil {
			_, err = f.Resolve(dir) // before anything is written: the config.yaml may be somebody else's
		}
		if !errors.Is(err, rundir.ErrNone) {
			return dir, err
		}
	}
	cfg, err := f.Load()
	if err != nil {
		return nil, err
	}
	if err := preflight(cfg); err != nil {
		return nil, err
	}
	if f.Run != "" {
		return rundir.Make(f.Run)
	}
	return rundir.Create(rundir.Root, f.Name(), time.Now())
}
