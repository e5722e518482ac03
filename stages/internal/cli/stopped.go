package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"penstock/schema/checkpoint"
	"penstock/stages/internal/lineage"
	"penstock/stages/internal/rundir"
)

// stoppedRun is what the files of a run say that neither goes on nor is finished.
type stoppedRun struct {
	Steps        uint32  `json:"steps"`      // windows committed in the surviving lineage
	Checkpoint   uint32  `json:"checkpoint"` // the step that it goes on from; 0: from the beginning
	Tokens       uint64  `json:"tokens"`
	Slots        uint64  `json:"slots"`
	Loss         float64 `json:"loss"`          // of the last step
	AcceptLength float64 `json:"accept_length"` // of the last evaluation; 0: none
	Ledger       struct {
		Batches   int    `json:"batches"`
		Documents uint64 `json:"documents"`
		Dead      int    `json:"dead"` // batches given up as bad
	} `json:"ledger"`
}

func readStopped(dir *rundir.Dir) (s stoppedRun, err error) {
	lines, err := lineage.Read(dir.Ledger())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	for _, l := range lineage.Survivors(lines) {
		s.Steps = max(s.Steps, l.Window+1)
		s.Tokens, s.Slots = s.Tokens+l.Tokens, s.Slots+l.Slots
		s.Ledger.Batches += len(l.Batches)
		s.Ledger.Documents += uint64(l.Documents)
		s.Ledger.Dead += len(l.Dead)
	}
	saved, err := checkpoint.List(dir.Checkpoints())
	if err != nil {
		return s, err
	}
	if len(saved) > 0 {
		s.Checkpoint = saved[0].Window
	}
	return s, s.readMetrics(dir.Metrics())
}

// readMetrics takes the latest figures from a run's metrics.jsonl, whose last line may be torn.
func (s *stoppedRun) readMetrics(path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	for text := range bytes.Lines(b) {
		var l struct {
			Loss         float64 `json:"loss"`
			AcceptLength float64 `json:"accept_length"`
		}
		if json.Unmarshal(text, &l) != nil {
			continue
		}
		if l.Loss != 0 {
			s.Loss = l.Loss
		}
		if l.AcceptLength != 0 {
			s.AcceptLength = l.AcceptLength
		}
	}
	return nil
}

// print says where a stopped run stands, and how it goes on.
func (s stoppedRun) print(out io.Writer, dir *rundir.Dir) error {
	accept := "not measured"
	if s.AcceptLength > 0 {
		accept = fmt.Sprintf("%.3f", s.AcceptLength)
	}
	_, err := fmt.Fprintf(out, "not running, and not finished: go on with `penstock up --run %s`\n"+
		"steps %d (goes on from %d)   tokens %d   slots %d   loss %.3f   accept_length %s\nbatches %d   documents %d   dead batches %d\n",
		dir.Path(), s.Steps, s.Checkpoint, s.Tokens, s.Slots, s.Loss, accept, s.Ledger.Batches, s.Ledger.Documents, s.Ledger.Dead)
	return err
}
