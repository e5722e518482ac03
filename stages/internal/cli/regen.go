package cli

import (
	"fmt"
	"math"
	"os"

	"github.com/spf13/cobra"

	"penstock/stages/internal/regen"
)

func newRegen(s streams) *cobra.Command {
	var o regen.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "regen --endpoint URL --model NAME --out FILE DATA...",
		Short: "Rewrite the answers of conversations with the target",
		Long: "regen has every answer in DATA (files, folders or patterns, as data.files takes them) written anew by the target, through\n" +
			"any OpenAI-compatible server: a drafter must learn what its target says. Order is kept; an interrupted run goes on where it\n" +
			"was. Turns that call tools stay as they are. OPENAI_API_KEY, if set, is sent as the key.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(o.Temperature >= 0 && o.Temperature <= math.MaxFloat64) {
				return fmt.Errorf("--temperature %g: is not 0 or above", o.Temperature)
			}
			o.Files, o.Key = args, os.Getenv("OPENAI_API_KEY")
			r, err := regen.Run(cmd.Context(), o)
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
	fs := cmd.Flags()
	fs.StringVar(&o.Endpoint, "endpoint", "", "`URL` of the server, such as http://localhost:8000/v1")
	fs.StringVar(&o.Model, "model", "", "`NAME` of the target at the server")
	fs.StringVar(&o.Out, "out", "", "`FILE` to write, JSON lines")
	countVar(fs, &o.Concurrency, "concurrency", 64, 1, "conversations at a time")
	countVar(fs, &o.Tries, "tries", 8, 1, "of one request, before the command stops")
	countVar(fs, &o.MaxTokens, "max-tokens", 0, 0, "of an answer; 0 leaves it to the server")
	fs.Float64Var(&o.Temperature, "temperature", 0, "of the answers")
	fs.BoolVar(&asJSON, "json", false, "print JSON")
	must(cmd, "endpoint", "model", "out")
	return cmd
}
