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
	Steps        uint32             `json:"steps"`
	Tokens       uint64             `json:"tokens"`
	Slots        uint64             `json:"slots"`
	Seconds      float64            `json:"seconds"`
	Loss         float64            `json:"loss"`
	CrossEntropy float64            `json:"cross_entropy"`
	AcceptLength float64            `json:"accept_length"`
	Idle         map[string]float64 `json:"idle"`
	Ledger       struct {
		Batches int `json:"batches"`
	} `json:"ledger"`
}

// readSummary returns a finished run's summary, and all of it as it stands in the file.
func readSummary(dir *rundir.Dir) (summary, []byte, error) {
	b, err := os.ReadFile(dir.Summary())
	if err != nil {
		return summary{}, nil, fmt.Errorf("the run has ended without a summary: %w", err)
	}
	var s summary
	if err := json.Unmarshal(b, &s); err != nil {
		return summary{}, nil, fmt.Errorf("read %s: %w", dir.Summary(), err)
	}
	return s, b, nil
}

// printSummary reports a finished run: its summary.json on one line, or in words.
func printSummary(out io.Writer, dir *rundir.Dir, asJSON bool) error {
	s, b, err := readSummary(dir)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(out, json.RawMessage(b))
	}
	entropy := ""
	if s.CrossEntropy != 0 && s.CrossEntropy != s.Loss {
		entropy = fmt.Sprintf("   cross_entropy %.3f", s.CrossEntropy)
	}
	accept := "not measured"
	if s.AcceptLength > 0 {
		accept = fmt.Sprintf("%.3f", s.AcceptLength)
	}
	_, err = fmt.Fprintf(out, "steps %d   tokens %d   slots %d   seconds %.1f   loss %.3f%s\naccept_length %s   drafter %s\n",
		s.Steps, s.Tokens, s.Slots, s.Seconds, s.Loss, entropy, accept, dir.Drafter())
	return err
}
