package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"penstock/schema/checkpoint"
	"penstock/schema/hf"
	"penstock/schema/safetensors"
	"penstock/stages/internal/runtime"
)

func newExport(s streams) *cobra.Command {
	var f runtime.Flags
	var from, out, dtype, code string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a checkpoint's drafter as a directory that vLLM, SGLang and transformers load",
		Long: "export writes config.json, model.safetensors and dflash.py of a checkpoint's drafter. Without --checkpoint it takes the latest whole\n" +
			"one of the newest run, or of --run DIR.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := openCheckpoint(f, from)
			if err != nil {
				return err
			}
			defer c.Close()
			if err := hf.WriteDrafter(out, c.Drafter, c.Weights.ReadAt, hf.Export{DType: safetensors.DType(dtype), Code: code}); err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.out, "%s: window %d of run %s\n", out, c.Window, c.Run)
			return err
		},
	}
	f.Register(cmd.Flags())
	fs := cmd.Flags()
	fs.StringVar(&from, "checkpoint", "", "checkpoint `DIR`")
	fs.StringVar(&out, "out", "", "`DIR` to write")
	fs.StringVar(&dtype, "dtype", string(safetensors.BF16), "type of the weights: BF16 or F32")
	fs.StringVar(&code, "code", "", "`FILE` to put beside the weights as dflash.py instead of the one that comes with penstock")
	must(cmd, "out")
	return cmd
}

func openCheckpoint(f runtime.Flags, dir string) (*checkpoint.Checkpoint, error) {
	if dir != "" {
		return checkpoint.Open(dir)
	}
	run, err := openRun(f)
	if err != nil {
		return nil, fmt.Errorf("name --checkpoint, or a run: %w", err)
	}
	c, _, err := checkpoint.Latest(run.Checkpoints())
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.Path(), err)
	}
	return c, nil
}
