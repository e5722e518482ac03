package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"penstock/stages/internal/backend"
	"penstock/stages/internal/verify"
)

func newVerify(s streams) *cobra.Command {
	var o verify.Options
	var device string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify --target DIR --golden DIR",
		Short: "Check tokenizer, target, drafter and optimizer against golden vectors",
		Long: "verify makes every check that the golden folder's files allow, and fails if one of them does. A GPU is checked twice: in\n" +
			"float32, and in bfloat16 at the tolerances of that. It prints a table on a terminal and JSON elsewhere.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := verifyDevice(cmd.Context(), device, o)
			if err != nil {
				return err
			}
			if asJSON || !isTerminal(s.out) {
				err = printJSON(s.out, report)
			} else {
				_, err = fmt.Fprint(s.out, report)
			}
			if err == nil && !report.OK {
				bad := 0
				for _, c := range report.Checks {
					if !c.OK {
						bad++
					}
				}
				err = fmt.Errorf("%d of %d checks failed", bad, len(report.Checks))
			}
			return err
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.TargetDir, "target", "", "model `DIR`")
	fs.StringVar(&o.GoldenDir, "golden", "", "golden `DIR`")
	fs.StringVar(&device, "device", "cpu", "cpu, or cuda[:K]")
	countVar(fs, &o.Decode, "decode", 0, 0, "at most so many decoded prompts; 0: all")
	fs.BoolVar(&asJSON, "json", false, "print JSON on a terminal too")
	must(cmd, "target", "golden")
	return cmd
}

// verifyDevice checks a device, and a GPU in float32 before.
func verifyDevice(ctx context.Context, device string, o verify.Options) (verify.Report, error) {
	exact, ok := backend.Exact(device)
	if !ok {
		return verifyOn(ctx, device, o)
	}
	report, err := verifyOn(ctx, exact, o)
	if err != nil {
		return report, err
	}
	o.BF16 = true
	rounded, err := verifyOn(ctx, device, o)
	report.Join("bfloat16.", rounded)
	return report, err
}

func verifyOn(ctx context.Context, device string, o verify.Options) (verify.Report, error) {
	dev, err := backend.Open(device)
	if err != nil {
		return verify.Report{}, err
	}
	report, err := verify.Run(ctx, dev, o)
	return report, errors.Join(err, dev.Close())
}
