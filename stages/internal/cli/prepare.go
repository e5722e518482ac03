package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"penstock/schema"
	"penstock/schema/hf"
	"penstock/schema/store"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/likeness"
	"penstock/stages/internal/model"
	"penstock/stages/internal/prepare"
	"penstock/stages/internal/runtime"
)

// sharedStores is where prepare puts stores that belong to no run.
const sharedStores = "stores"

func newPrepare(s streams) *cobra.Command {
	var f runtime.Flags
	var out string
	var asJSON bool
	var sample float64
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
			var like *likeness.Report
			if sample > 0 {
				if like, err = likenessOf(cmd.Context(), cfg, r.Store, sample); err != nil {
					return err
				}
				if warning := like.Warning(); warning != "" {
					fmt.Fprintln(s.err, "warning:", warning)
				}
			}
			if asJSON {
				return printJSON(s.out, struct {
					prepare.Report
					Likeness *likeness.Report `json:"likeness,omitempty"`
				}{r, like})
			}
			_, err = fmt.Fprintln(s.out, r)
			if like != nil && err == nil {
				_, err = fmt.Fprintf(s.out, "log-probability of the answers %.2f a token, of the target's own %.2f\n", like.LogProb, like.Expected)
			}
			return err
		},
	}
	f.Register(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "`DIR` of stores (default: data.store, or "+sharedStores+"/)")
	cmd.Flags().Float64Var(&sample, "sample", 0, "share of the documents on which to measure whether the target could have written them, such as 0.01")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// likenessOf measures a store's answers with the run's target on its device.
func likenessOf(ctx context.Context, cfg schema.Config, path string, share float64) (r *likeness.Report, err error) {
	dev, err := backend.Open(cfg.Device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	t, err := hf.OpenTarget(cfg.Target.Dir)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	m, err := model.LoadTarget(dev, t, t.Layers)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	got, err := likeness.Measure(ctx, dev, m, s, share)
	return &got, err
}
