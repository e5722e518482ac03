package cli

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"penstock/stages/internal/doctor"
	"penstock/stages/internal/scenario"
	"penstock/stages/internal/sim"
)

func newSim(s streams) *cobra.Command {
	var file, times, picture string
	var policies []string
	var asJSON, table bool
	cmd := &cobra.Command{
		Use:   "sim --scenario FILE",
		Short: "Run the dispatcher against simulated devices, in virtual time",
		Long: "sim runs the rules that choose, reserve, credit and commit against devices that are only described: deploy/config/sim\n" +
			"holds scenarios. It reports speed and its bound, what each device waited for, bytes held, and how well lengths were mixed.\n" +
			"With --measured it takes the times that `penstock bench e2e` has measured in place of the scenario's.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			sc, err := scenario.Load(file)
			if err != nil {
				return err
			}
			if times != "" {
				m, err := scenario.ReadMeasured(times)
				if err != nil {
					return err
				}
				sc = sc.With(m)
			}
			if len(policies) == 1 && policies[0] == "all" {
				policies = sim.Policies()
			}
			if picture != "" && len(policies) > 1 {
				return fmt.Errorf("--svg draws one policy: name it with --policy")
			}
			var results []*sim.Result
			for _, p := range policies {
				r, err := sim.Run(cmd.Context(), sc, p, nil)
				if err != nil {
					return fmt.Errorf("simulate %s under %s: %w", file, p, err)
				}
				results = append(results, r)
			}
			if picture != "" {
				if err := os.WriteFile(picture, results[0].SVG(), 0o644); err != nil {
					return fmt.Errorf("write the picture: %w", err)
				}
			}
			return printSim(s.out, results, asJSON, table)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&file, "scenario", "", "`FILE` that describes machine, data and events")
	fs.StringVar(&times, "measured", "", "`FILE` with a report of bench e2e, the last of several")
	fs.StringSliceVar(&policies, "policy", []string{sim.Ours}, "`NAME`s, or all: "+strings.Join(sim.Policies(), ", "))
	fs.BoolVar(&asJSON, "json", false, "print JSON, one line a policy")
	fs.BoolVar(&table, "table", false, "print a Markdown table with a row for each policy")
	fs.StringVar(&picture, "svg", "", "draw device timelines and stock into `FILE`")
	must(cmd, "scenario")
	return cmd
}

func printSim(out io.Writer, results []*sim.Result, asJSON, table bool) error {
	if table {
		_, err := fmt.Fprint(out, sim.Table(results))
		return err
	}
	for _, r := range results {
		if asJSON {
			if err := printJSON(out, r.Report); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(out, "%s under %s: %.0f tokens/s, %.1f %% of the bound %.0f\n", r.Scenario, r.Policy, r.TokensPerS, 100*r.OfBound, r.Bound)
		fmt.Fprintf(out, "  %d documents in %d batches and %d windows, %.0f s, %d batches redone\n", r.Documents, r.Batches, r.Windows, r.Seconds, r.Redone)
		for _, stage := range slices.Sorted(maps.Keys(r.StageIdle)) {
			fmt.Fprintf(out, "  %-7s idle %5.1f %%%s\n", stage, 100*r.StageIdle[stage]["idle"], causes(r.StageIdle[stage]))
		}
		slots := "no slots"
		if r.SlotBytes > 0 {
			slots = doctor.Bytes(int64(r.SlotBytes)) + " in slots"
		}
		_, err := fmt.Fprintf(out, "  devices idle %.1f %%, at most %s held (%s), mix off by %.3f batches\n",
			100*r.DeviceIdle, doctor.Bytes(int64(r.PeakBytes)), slots, r.MixError)
		if err != nil {
			return err
		}
	}
	return nil
}

// causes lists what was waited for, by share.
func causes(shares map[string]float64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(shares)) {
		if k != "idle" && shares[k] >= 0.0005 {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", k, 100*shares[k]))
		}
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
