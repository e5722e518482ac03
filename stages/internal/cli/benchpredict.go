package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"penstock/kernels"
	"penstock/schema"
	"penstock/schema/hf"
	"penstock/stages/internal/bench"
	"penstock/stages/internal/scenario"
	"penstock/stages/internal/sim"
	"penstock/stages/internal/worker"
)

// predict adds the times of the run to the report, what the simulator says of them, and the bound that they set. Where
// processes share a GPU that needs the speeds of target and drafter alone, from a file; without it there is no prediction.
func (r *runReport) predict(ctx context.Context, cfg schema.Config, alone string, s summary, stages *seen) error {
	if s.Ledger.Batches == 0 {
		return nil
	}
	m := stages.measured(float64(s.Tokens) / float64(s.Ledger.Batches))
	sc, err := scenarioOf(cfg, stages.plan().Store)
	if err != nil {
		return err
	}
	if alone != "" {
		if err := takeAlone(&m, alone); err != nil {
			return err
		}
	}
	r.Measured = &m
	if m.Forward <= 0 || m.Step <= 0 || sc.Shares() && alone == "" {
		return nil
	}
	simulated, err := sim.Run(ctx, sc.With(m), sim.Ours, nil)
	if err != nil {
		return fmt.Errorf("simulate the run: %w", err)
	}
	r.Predicted, r.Bound = simulated.TokensPerS, sc.Bound(m)
	r.OfBound = r.TokensS / r.Bound
	return nil
}

// scenarioOf describes the run of a configuration to the simulator.
func scenarioOf(cfg schema.Config, store string) (*scenario.Scenario, error) {
	t, err := hf.OpenTarget(cfg.Target.Dir)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	shape, err := worker.DrafterConfig(cfg, t)
	if err != nil {
		return nil, err
	}
	element := kernels.Float32.Bytes()
	if g, ok := schema.ParseGPUs(cfg.Device); ok && !g.Exact() {
		element = kernels.BFloat16.Bytes()
	}
	taps := cfg.Target.Taps
	return scenario.OfRun(cfg, store, len(taps)*t.HiddenSize*element,
		worker.TargetCosts(t.Geometry, taps[len(taps)-1]+1).Rates(), worker.DraftCosts(shape).Rates()), nil
}

// takeAlone puts the times of bench target and bench draft in place of those of a run, from a file of their reports.
func takeAlone(m *scenario.Measured, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--alone: %w", err)
	}
	var forward, step bool
	for line := range bytes.Lines(b) {
		var r bench.Report
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("--alone: %s: %w", path, err)
		}
		switch {
		case r.TokensS <= 0:
		case r.Slots == 0:
			m.Forward, forward = m.Tokens/r.TokensS, true
		default:
			m.Optimizer = r.Optimizer
			m.Step, step = m.Tokens/r.TokensS*(1-r.Optimizer*float64(r.Batches)/r.Seconds), true
		}
	}
	if !forward || !step {
		return fmt.Errorf("--alone: %s needs a report of bench target and one of bench draft", path)
	}
	m.Turn = max(m.Turn, m.Optimizer)
	return nil
}
