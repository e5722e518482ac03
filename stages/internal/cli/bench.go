package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"penstock/kernels/gemm"
	"penstock/stages/internal/bench"
	"penstock/stages/internal/geometry"
)

func newBench(s streams) *cobra.Command {
	return group(&cobra.Command{
		Use:   "bench",
		Short: "Measure speed: target, draft, e2e or broker",
		Long: "bench measures speed on real tokens, never padding, and prints one JSON object a line: one for each matrix product that\n" +
			"the machine has, unless --device names one.",
	},
		newBenchModel(s, "target", "Measure the target's forward with its captures, on random weights", bench.Target),
		newBenchModel(s, "draft", "Measure the drafter's training step, on random weights", bench.Draft),
		newBenchE2E(s), newBenchBroker(s),
	)
}

func newBenchModel(s streams, name, short string, run func(context.Context, bench.Options) (bench.Report, error)) *cobra.Command {
	var o bench.Options
	var model, lengths, device string
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Model, err = geometry.Lookup(model); err != nil {
				return err
			}
			if lengths == "" {
				lengths = "fixed:3072"
				if model == "tiny-go" {
					lengths = "fixed:512"
				}
			}
			if o.Lengths, err = bench.ParseLengths(lengths); err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return err
			}
			return eachDevice(s.out, device, func(device string) (any, error) {
				o.Device = device
				return run(cmd.Context(), o)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&model, "geometry", "tiny-go", "`NAME`: one of "+strings.Join(geometry.Names(), ", "))
	fs.StringVar(&lengths, "lengths", "", "of documents: `fixed:N` or lognormal (default: fixed:3072, fixed:512 for tiny-go)")
	fs.StringVar(&device, "device", "", "cpu, cpu/PATH or cuda[:K] (default: every CPU path)")
	fs.IntVar(&o.Batch, "batch", 4, "documents of a batch")
	fs.IntVar(&o.Anchors, "anchors", 512, "at most, of a document")
	fs.Float64Var(&o.Seconds, "seconds", 5, "to measure for, after one batch to warm up")
	fs.BoolVar(&o.Profile, "profile", false, "add the seconds that each op takes in one more batch")
	fs.Bool("json", true, "the report is JSON in any case")
	return cmd
}

// eachDevice prints the report of one device, or of every matrix product of the CPU where none is named.
func eachDevice(out io.Writer, device string, run func(device string) (any, error)) error {
	devices := []string{device}
	if device == "" {
		devices = nil
		for _, path := range gemm.Paths() {
			devices = append(devices, "cpu/"+path)
		}
	}
	for _, d := range devices {
		r, err := run(d)
		if err != nil {
			return fmt.Errorf("device %s: %w", d, err)
		}
		if err := printJSON(out, r); err != nil {
			return err
		}
	}
	return nil
}
