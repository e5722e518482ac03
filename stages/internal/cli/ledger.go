package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"penstock/stages/internal/lineage"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

func newLedger(s streams) *cobra.Command {
	var f runtime.Flags
	cmd := &cobra.Command{
		Use:   "ledger",
		Short: "Count what was trained, missed or trained twice",
		Long: "ledger counts, as JSON, the document-epochs of the windows that committed in the surviving lineage, against the plan\n" +
			"made anew from data, seed and epoch. It fails if a document is missing or was trained twice.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := openRun(f)
			if err != nil {
				return err
			}
			r, err := countLedger(cmd.Context(), f, dir)
			if err != nil {
				return err
			}
			if err := printJSON(s.out, r); err != nil {
				return err
			}
			if r.Missing+r.Duplicates+r.Mismatched > 0 {
				return fmt.Errorf("%d documents missing, %d trained more than once, %d windows not as planned", r.Missing, r.Duplicates, r.Mismatched)
			}
			return nil
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().Bool("json", true, "the report is JSON in any case")
	return cmd
}

// countLedger holds a run's ledger file against its plan.
func countLedger(ctx context.Context, f runtime.Flags, dir *rundir.Dir) (lineage.Report, error) {
	cfg, err := f.Resolve(dir)
	if err != nil {
		return lineage.Report{}, err
	}
	lines, err := lineage.Read(dir.Ledger())
	if err != nil {
		return lineage.Report{}, err
	}
	plan, _, err := worker.Prepare(ctx, cfg, dir) // the store is there, unless somebody removed it
	if err != nil {
		return lineage.Report{}, err
	}
	defer plan.Store.Close()
	return lineage.Count(lines, plan), nil
}
