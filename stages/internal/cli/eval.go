package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"penstock/schema/hf"
	"penstock/stages/internal/accept"
	"penstock/stages/internal/model"
	"penstock/stages/internal/runtime"
)

func newEval(s streams) *cobra.Command {
	var f runtime.Flags
	var o accept.Options
	var drafter string
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure the acceptance of a drafter by greedy speculative decoding",
		Long: "eval decodes held-out prompts with target and drafter and reports, as JSON, the tokens emitted per verification by the\n" +
			"target. What is not named comes from the newest run, or from --run DIR: its target, exported drafter and prompts.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			limits := cmd.Flags().Changed("limit") || cmd.Flags().Changed("max-new")
			if err := evalDefaults(f, &o, &drafter, limits); err != nil {
				return err
			}
			r, err := evaluate(cmd.Context(), o, drafter)
			if err != nil {
				return err
			}
			return printJSON(s.out, r)
		},
	}
	f.Register(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&o.Target, "target", "", "model `DIR`")
	flags.StringVar(&drafter, "drafter", "", "drafter `DIR`")
	flags.StringVar(&o.Prompts, "prompts", "", "`FILE` with a JSON list of {id, prompt}")
	countVar(flags, &o.Limit, "limit", 0, 0, "prompts from the front of the file; 0: all")
	countVar(flags, &o.MaxNew, "max-new", 160, 1, "tokens of an answer")
	flags.Bool("json", true, "the report is JSON in any case")
	return cmd
}

// evalDefaults fills in what is not named from a run. A measurement that the run's configuration describes in full keeps
// its limits too, unless others are given.
func evalDefaults(f runtime.Flags, o *accept.Options, drafter *string, limits bool) error {
	o.Device = f.Device
	if o.Device == "" {
		o.Device = "cpu"
	}
	if o.Target != "" && *drafter != "" && o.Prompts != "" {
		return nil
	}
	dir, err := openRun(f)
	if err != nil {
		return fmt.Errorf("name --target, --drafter and --prompts, or a run: %w", err)
	}
	cfg, err := f.Resolve(dir)
	if err != nil {
		return err
	}
	if !limits && o.Prompts == "" {
		o.Limit, o.MaxNew = cfg.Eval.Limit, cfg.Eval.MaxNew
	}
	o.Device = cfg.Device
	for _, d := range []struct {
		value   *string
		from    string
		missing string
	}{
		{&o.Target, cfg.Target.Dir, "target.dir"}, {&o.Prompts, cfg.Eval.Prompts, "eval.prompts"}, {drafter, dir.Drafter(), ""},
	} {
		if *d.value == "" {
			*d.value = d.from
		}
		if *d.value == "" {
			return fmt.Errorf("run %s has no %s: name it", dir.Path(), d.missing)
		}
	}
	if _, err := os.Stat(*drafter); *drafter == dir.Drafter() && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("run %s has no drafter yet: wait for its end, or export one from %s", dir.Path(), dir.Checkpoints())
	}
	return nil
}

func evaluate(ctx context.Context, o accept.Options, dir string) (accept.Report, error) {
	d, err := hf.ReadDrafter(dir)
	if err != nil {
		return accept.Report{}, err
	}
	defer d.Close()
	return accept.Measure(ctx, o, model.Files(d), d.DrafterConfig)
}
