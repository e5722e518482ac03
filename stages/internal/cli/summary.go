package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"penstock/stages/internal/rundir"
)

// summary is what the closing lines show of summary.json.
type summary struct {
	Steps        uint32  `json:"steps"`
	Tokens       uint64  `json:"tokens"`
	Slots        uint64  `json:"slots"`
	Seconds      float64 `json:"seconds"`
	Loss         float64 `json:"loss"`
	AcceptLength float64 `json:"accept_length"`
}

// printSummary reports a finished run: its summary.json on one line, or in words.
func printSummary(out io.Writer, dir *rundir.Dir, asJSON bool) error {
	b, err := os.ReadFile(dir.Summary())
	if err != nil {
		return fmt.Errorf("the run has ended without a summary: %w", err)
	}
	if asJSON {
		return printJSON(out, json.RawMessage(b))
	}
	var s summary
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read %s: %w", dir.Summary(), err)
	}
	_, err = fmt.Fprintf(out, "steps %d   tokens %d   slots %d   seconds %.1f   loss %.3f\naccept_length %.3f   drafter %s\n",
		s.Steps, s.Tokens, s.Slots, s.Seconds, s.Loss, s.AcceptLength, dir.Drafter())
	return err
}
