package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"penstock/kernels"
	"penstock/schema"
	"penstock/schema/hf"
	"penstock/schema/safetensors"
	"penstock/schema/store"
	"penstock/stages/internal/accept"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/features"
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
	var keep bool
	var dtype string
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Tokenise the data into a store, with a report and a reject file",
		Long: "prepare tokenises data.files through the target's chat template into a store that runs share: name its folder in\n" +
			"data.store. A store is named by what decides its content, so the same data is prepared once. A run without data.store\n" +
			"prepares its own.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.Run != "" {
				return errors.New("prepare is for no single run: name the folder of stores with --out, and leave --run out")
			}
			if !(sample >= 0 && sample <= 1) {
				return fmt.Errorf("--sample %g: a share is in 0..1", sample)
			}
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
			if keep {
				if err := keepFeatures(cmd.Context(), cfg, r.Store, safetensors.DType(dtype)); err != nil {
					return err
				}
			}
			overlap, err := overlapOf(cmd.Context(), cfg, r.Store)
			if err != nil {
				return err
			}
			if overlap != nil && overlap.Known > 0 {
				fmt.Fprintln(s.err, "warning:", overlap.Warning())
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
					Overlap  *accept.Overlap  `json:"eval_overlap,omitempty"`
					Likeness *likeness.Report `json:"likeness,omitempty"`
				}{r, overlap, like})
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
	cmd.Flags().BoolVar(&keep, "features", false, "run the target too and keep what its taps say beside the store, for target.features")
	cmd.Flags().StringVar(&dtype, "dtype", string(safetensors.BF16), "type of the features: BF16 or F32")
	cmd.Flags().Float64Var(&sample, "sample", 0, "share of the documents on which to measure whether the target could have written them, such as 0.01")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// overlapOf looks for the evaluation's prompts in a store; nil if there are none.
func overlapOf(ctx context.Context, cfg schema.Config, path string) (*accept.Overlap, error) {
	if cfg.Eval.Prompts == "" {
		return nil, nil
	}
	s, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	o, err := accept.FindOverlap(ctx, s, accept.Options{Target: cfg.Target.Dir, Prompts: cfg.Eval.Prompts, Limit: cfg.Eval.Limit})
	return &o, errors.Join(err, s.Close())
}

// likenessOf measures a store's answers with the run's target on its device.
func likenessOf(ctx context.Context, cfg schema.Config, path string, share float64) (r *likeness.Report, err error) {
	err = withTarget(cfg, path, all, func(dev kernels.Device, _ *hf.Target, m *model.Target, s *store.Store) error {
		got, err := likeness.Measure(ctx, dev, m, s, share)
		r = &got
		return err
	})
	return r, err
}

// keepFeatures writes what the taps say of a store's documents into a folder beside it.
func keepFeatures(ctx context.Context, cfg schema.Config, path string, dtype safetensors.DType) error {
	taps := cfg.Target.Taps
	return withTarget(cfg, path, taps[len(taps)-1]+1, func(dev kernels.Device, t *hf.Target, m *model.Target, s *store.Store) error {
		if err := hf.CheckTaps(taps, t.Layers); err != nil {
			return fmt.Errorf("target.taps: %w", err)
		}
		mark, err := t.Fingerprint()
		if err != nil {
			return err
		}
		o := features.Options{Dir: strings.TrimSuffix(path, ".store") + ".features", Target: mark, Taps: taps, Hidden: t.HiddenSize, DType: dtype}
		_, err = features.Write(ctx, dev, m, s, o)
		return err
	})
}

const all = 0 // layers: the whole target

// withTarget opens a store, and so many layers of the run's target on its device.
func withTarget(cfg schema.Config, path string, layers int, do func(kernels.Device, *hf.Target, *model.Target, *store.Store) error) (err error) {
	dev, err := backend.Open(cfg.Device)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	t, err := hf.OpenTarget(cfg.Target.Dir)
	if err != nil {
		return err
	}
	defer t.Close()
	if layers == all || layers > t.Layers {
		layers = t.Layers
	}
	m, err := model.LoadTarget(dev, t, layers)
	if err != nil {
		return err
	}
	s, err := store.Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(dev, t, m, s)
}
