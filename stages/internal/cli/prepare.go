package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"penstock/stages/internal/prepare"
	"penstock/stages/internal/runtime"
)

// sharedStores is where prepare puts stores that belong to no run.
const sharedStores = "stores"

func newPrepare(s streams) *cobra.Command {
	var f runtime.Flags
	var out string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Tokenise the data into a store, with a report and a reject file",
		Long: "prepare tokenises data.files through the target's chat template into a store that runs share: name its folder in\n" +
			"data.store. A store is named by what decides its content, so the same data is prepared once. A run without data.store\n" +
			"prepares its own.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := f.Load()
			if err != nil {
				return err
			}
			if out == "" {
				out = cfg.Data.Store
			}
			if out == "" {
				out = sharedStores
			}
			r, err := prepare.Prepare(cmd.Context(), prepare.OptionsFor(cfg, out))
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(s.out, r)
			}
			_, err = fmt.Fprintln(s.out, r)
			return err
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "`DIR` of stores (default: data.store, or "+sharedStores+"/)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
