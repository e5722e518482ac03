package draft

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/schema/hf"
	"penstock/schema/safetensors"
	"penstock/stages/internal/accept"
	"penstock/stages/internal/account"
	"penstock/stages/internal/lineage"
	"penstock/stages/internal/model"
	"penstock/stages/internal/rundir"
)

// save makes the ledger file durable, then a checkpoint that covers it.
func (t *trainer) save() error {
	if err := t.lead.lines.Sync(); err != nil {
		return err
	}
	lately := t.report.lately()
	t.state.Gen, t.state.Losses, t.state.CrossEntropies = t.gen, lately.Losses, lately.CrossEntropies
	_, err := checkpoint.Save(t.w.Run.Checkpoints(), t.sofar(), checkpoint.Tensors{
		Weights: t.drafter.Weights.ReadAt, M: t.opt.M.ReadAt, V: t.opt.V.ReadAt,
	}, t.w.Config.Save.Keep)
	return err
}

// sofar is the state with the time that this membership has trained.
func (t *trainer) sofar() checkpoint.State {
	s := t.state
	s.Totals.Seconds += time.Since(t.began).Seconds()
	return s
}

// summary is summary.json.
type summary struct {
	Run          string             `json:"run"`
	Steps        uint64             `json:"steps"`
	Windows      uint32             `json:"windows"`
	Tokens       uint64             `json:"tokens"`
	Slots        uint64             `json:"slots"`
	Seconds      float64            `json:"seconds"`       // of training, over all processes that trained it
	Loss         float64            `json:"loss"`          // mean of the last windows
	CrossEntropy float64            `json:"cross_entropy"` // likewise, decay-weighted, whatever the loss
	AcceptLength float64            `json:"accept_length"`
	PerPosition  []float64          `json:"per_position,omitempty"`
	Prompts      int                `json:"prompts"`
	Data         *rows              `json:"data,omitempty"`
	Idle         map[string]float64 `json:"idle"` // share of an instance's time spent waiting
	Time         times              `json:"time"`
	Ledger       lineage.Report     `json:"ledger"`
	Drafter      string             `json:"drafter"`
}

// times is each instance's seconds by what they were spent on.
type times map[string]map[string]float64

// stands reports a run that had ended before as done, if its summary is there, and leaves everything as it was.
func (t *trainer) stands(ctx context.Context) (bool, error) {
	b, err := os.ReadFile(t.w.Run.Summary())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	var s summary
	if err != nil || json.Unmarshal(b, &s) != nil || s.Windows != t.state.Window || s.Ledger.Missing > 0 {
		return false, err
	}
	t.report.progress(t.state, func(p *schema.Progress) {
		p.Done, p.Loss, p.CrossEntropy, p.AcceptLength = true, s.Loss, s.CrossEntropy, s.AcceptLength
	})
	return true, t.report.put(ctx)
}

// finish saves, exports the drafter, measures what was exported and writes the summary.
func (t *trainer) finish(ctx context.Context) error {
	t.w.Book.Enter(account.Step)
	t.report.progress(t.state, func(*schema.Progress) {}) // all windows, before what takes long
	if err := t.report.put(ctx); err != nil {
		return err
	}
	t.state, t.began = t.sofar(), time.Now()
	if err := t.saveAtLast(ctx); err != nil {
		return err
	}
	dir := t.w.Run.Drafter()
	if err := hf.WriteDrafter(dir, t.drafter.Config, t.drafter.Weights.ReadAt, hf.Export{DType: safetensors.BF16}); err != nil {
		return fmt.Errorf("export drafter: %w", err)
	}
	measured, err := t.measureExport(ctx, dir)
	if err != nil {
		return fmt.Errorf("evaluate %s: %w", dir, err)
	}
	lines, err := lineage.Read(t.w.Run.Ledger())
	if err != nil {
		return err
	}
	spent, err := t.spent(ctx)
	if err != nil {
		return err
	}
	lately := t.report.lately()
	s := summary{
		Run: t.w.Run.Name(), Steps: t.state.Step, Windows: t.state.Window, Tokens: t.state.Totals.Tokens, Slots: t.state.Totals.Slots,
		Seconds: t.state.Totals.Seconds, Loss: mean(lately.Losses), CrossEntropy: mean(lately.CrossEntropies),
		AcceptLength: measured.AcceptLength, PerPosition: measured.PerPosition, Prompts: measured.Prompts, Data: t.rows(),
		Idle: spent.idle(), Time: spent, Ledger: lineage.Count(lines, t.run), Drafter: dir,
	}
	if err := rundir.WriteJSON(t.w.Run.Summary(), s); err != nil {
		return err
	}
	if measured.Prompts > 0 {
		m := metric{Window: t.state.Window, AcceptLength: measured.AcceptLength, PerPosition: measured.PerPosition, Prompts: measured.Prompts,
			Seconds: s.Seconds}
		if err := t.report.evaluated(m); err != nil {
			return err
		}
	}
	t.report.progress(t.state, func(p *schema.Progress) { p.Done, p.Loss, p.CrossEntropy = true, s.Loss, s.CrossEntropy })
	return t.report.put(ctx)
}

// measureExport decodes with the files that were exported, as anybody else would.
func (t *trainer) measureExport(ctx context.Context, dir string) (accept.Report, error) {
	if t.w.Config.Eval.Prompts == "" {
		return accept.Report{}, nil
	}
	d, err := hf.ReadDrafter(dir)
	if err != nil {
		return accept.Report{}, err
	}
	defer d.Close()
	return accept.Measure(ctx, t.evaluator.options(), model.Files(d), d.DrafterConfig)
}

// spent collects the instances' times from the board.
func (t *trainer) spent(ctx context.Context) (times, error) {
	hints, err := t.w.Conn.Board().List(ctx, "stage.*")
	if err != nil {
		return nil, err
	}
	spent := times{t.w.Instance: t.w.Book.Seconds()}
	for _, h := range hints {
		if s, ok := h.Record.(schema.StageState); ok && s.Instance != t.w.Instance {
			spent[s.Instance] = s.Seconds
		}
	}
	return spent, nil
}

// idle returns each instance's share of waiting.
func (s times) idle() map[string]float64 {
	idle := map[string]float64{}
	for instance, seconds := range s {
		idle[instance] = account.Idle(seconds)
	}
	return idle
}
