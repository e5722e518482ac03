package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"penstock/schema"
)

func newDecode(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "decode",
		Short: "Print a msgpack record from standard input as JSON",
		Long: "decode reads one record from standard input and prints it as a line of JSON. It is the filter to watch a run with:\n\n" +
			"  nats sub --translate 'penstock decode' 'ps.>'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := io.ReadAll(io.LimitReader(s.in, schema.MaxRecord+1))
			if err != nil {
				return fmt.Errorf("read standard input: %w", err)
			}
			line, err := schema.ToJSON(b)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(s.out, "%s\n", line)
			return err
		},
	}
}
