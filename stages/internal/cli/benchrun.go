package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"penstock/stages/internal/geometry"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/scenario"
)

// runReport is the speed of a whole run, start-up aside.
type runReport struct {
	Device    string                `json:"device"`
	Steps     uint32                `json:"steps"`
	Batches   int                   `json:"batches"`
	Seconds   float64               `json:"seconds"`
	BatchesS  float64               `json:"batches_s"`
	TokensS   float64               `json:"tokens_s"`
	SlotsS    float64               `json:"slots_s"`
	Idle      map[string]float64    `json:"idle"`       // share of an instance's time
	Handoff   map[string][2]float64 `json:"handoff_ms"` // from publish to start of work, p50 and p99, by instance
	PeakBytes int64                 `json:"peak_bytes"` // proportional set size of all processes together
	Peer      *peer                 `json:"peer,omitempty"`
	Turn      map[string]float64    `json:"turn_ms,omitempty"` // of one of several ranks, from a window to the next: mean time of each part

	Measured  *scenario.Measured `json:"measured,omitempty"`           // of a batch, as `penstock sim --measured` takes it
	Predicted float64            `json:"predicted_tokens_s,omitempty"` // by the simulator, from these times
	Bound     float64            `json:"bound_tokens_s,omitempty"`     // by target and step alone; see [scenario.Scenario.Bound]
	OfBound   float64            `json:"of_bound,omitempty"`
}

func newBenchE2E(s streams) *cobra.Command {
	var f runtime.Flags
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "e2e",
		Short: "Measure a whole run: every stage as a process",
		Long: "e2e measures a run of all stages as processes: on the configured target and data, or, with --geometry, on a target of\n" +
			"that size with random weights and on made-up documents, one batch for the tokens of --batch documents. Weights and data are\n" +
			"written to a temporary directory (TMPDIR) first, two bytes a parameter; with --target-cache the weights stay in a folder and\n" +
			"are written once.\n\n" +
			"The report has the times of forward, copy and step, the tokens a second that the simulator predicts from them, and the bound\n" +
			"that they set. Where a target and a drafter share a GPU, each takes longer than alone: then --alone names a file with what\n" +
			"bench target and bench draft have printed there. With --warm-up, steps behind the measured ones are made too, because the last\n" +
			"steps of a run have no next ones to share the time with.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(f); err != nil {
				return err
			}
			for _, name := range []string{"lengths", "batch"} {
				if o.geometry == "" && cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s is of made-up documents: name a size with --geometry", name)
				}
			}
			sets, remove, err := o.made(f)
			if err != nil {
				return err
			}
			defer remove()
			f.Sets = append(sets, f.Sets...)
			device := f.Device
			return eachDevice(s.out, device, func(device string) (any, error) {
				f.Device = device
				return benchRun(cmd.Context(), f, o, s.err)
			})
		},
	}
	f.Register(cmd.Flags())
	fs := cmd.Flags()
	hide(cmd, "run")
	fs.IntVar(&o.steps, "steps", 40, "optimizer steps that are measured")
	fs.IntVar(&o.warm, "warm-up", 0, "optimizer steps that are made first and not counted, fewer than --steps")
	fs.StringVar(&o.geometry, "geometry", "", "`NAME`: one of "+strings.Join(geometry.Names(), ", "))
	fs.StringVar(&o.lengths, "lengths", "fixed:3072", "of made-up documents: `fixed:N` or lognormal")
	fs.IntVar(&o.batch, "batch", 4, "made-up documents of a batch, on average")
	fs.StringVar(&o.cache, "target-cache", "", "keep the made target in `DIR`, and take it from there if it is there")
	fs.StringVar(&o.alone, "alone", "", "`FILE` with the reports of bench target and bench draft on this machine")
	fs.Bool("json", true, "the report is JSON in any case")
	return cmd
}

func newBenchBroker(s streams) *cobra.Command {
	var f runtime.Flags
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Measure the broker: a whole run whose devices do nothing",
		Long: "broker sends batches through all stages with empty work: what remains is messages, ledger and bookkeeping. It reports\n" +
			"batches a second, and the time from publish to the start of work.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(f); err != nil {
				return err
			}
			if f.Device != "" {
				return fmt.Errorf("--device %s: the devices of bench broker do nothing: leave --device out", f.Device)
			}
			f.Device = "null"
			f.Sets = append([]string{"window.batches=32", "batch.tokens=512", "train.anchors=1", "train.epochs=8"}, f.Sets...)
			r, err := benchRun(cmd.Context(), f, o, s.err)
			if err != nil {
				return err
			}
			return printJSON(s.out, r)
		},
	}
	f.Register(cmd.Flags())
	hide(cmd, "run", "device")
	cmd.Flags().IntVar(&o.steps, "steps", 200, "optimizer steps that are measured")
	cmd.Flags().Bool("json", true, "the report is JSON in any case")
	return cmd
}

// benchRun trains for some steps in a directory of its own, which it removes, without evaluation and checkpoints.
func benchRun(ctx context.Context, f runtime.Flags, o benchOptions, progress io.Writer) (runReport, error) {
	f.Sets = append([]string{"eval.prompts=", "eval.every=0", "save.every=0", "train.max_steps=" + strconv.Itoa(o.warm+o.steps)}, f.Sets...)
	cfg, err := f.Load()
	if err != nil {
		return runReport{}, err
	}
	if err := preflight(cfg); err != nil {
		return runReport{}, err
	}
	if o.warm > 0 {
		f.Sets = append(f.Sets, "train.max_steps="+strconv.Itoa(o.warm+o.steps+o.behind(cfg)))
	}
	tmp, err := os.MkdirTemp("", "penstock-bench-")
	if err != nil {
		return runReport{}, fmt.Errorf("make a run directory: %w", err)
	}
	dir, err := rundir.Make(filepath.Join(tmp, "run"))
	if err != nil {
		return runReport{}, err
	}
	stages := newSeen(o.warm, o.warm+o.steps)
	out, err := train(ctx, f, dir, newDisplay(progress), stages.take)
	if err != nil {
		return runReport{}, fmt.Errorf("%w (logs are kept in %s)", err, dir.Path())
	}
	s, _, err := readSummary(dir)
	if err != nil {
		return runReport{}, err
	}
	r := runReport{
		Device: cfg.Device, Steps: s.Steps, Batches: s.Ledger.Batches, Seconds: s.Seconds, Idle: s.Idle,
		Handoff: map[string][2]float64{}, PeakBytes: out.peak, Peer: stages.pulled(), Turn: stages.turns(),
	}
	if s.Seconds > 0 {
		r.BatchesS, r.TokensS, r.SlotsS = float64(r.Batches)/s.Seconds, float64(s.Tokens)/s.Seconds, float64(s.Slots)/s.Seconds
	}
	if o.warm > 0 {
		if err := r.since(dir, o.warm, o.steps); err != nil {
			return runReport{}, err
		}
		r.Idle = stages.idle()
	}
	if err := r.predict(ctx, cfg, o.alone, s, stages); err != nil {
		return runReport{}, err
	}
	for _, st := range out.view.Stages {
		if strings.HasPrefix(st.Instance, "pack") || strings.HasPrefix(st.Instance, "draft") {
			r.Handoff[st.Instance] = [2]float64{1e3 * st.Handoff[0], 1e3 * st.Handoff[1]}
		}
	}
	if err := os.RemoveAll(tmp); err != nil {
		return runReport{}, fmt.Errorf("remove the run directory: %w", err)
	}
	return r, nil
}
