package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
)

// Measured are the times of a real machine, in seconds, as `penstock bench e2e` reports them.
type Measured struct {
	Tokens    float64 `json:"tokens"`    // of a batch
	Forward   float64 `json:"forward"`   // of a batch, on a target that has its device to itself
	Pack      float64 `json:"pack"`      // of a batch
	Step      float64 `json:"step"`      // of a batch, forward and backward, on a rank that has its device to itself
	Optimizer float64 `json:"optimizer"` // of a window
	Turn      float64 `json:"turn"`      // from the end of a window's gradients to the first work of the next, the optimizer's time included
	Handoff   float64 `json:"handoff"`   // from the end of a stage's work on a batch to the start of the next stage's
}

// ReadMeasured reads the report of a `bench e2e`, the last one in a file.
func ReadMeasured(path string) (m Measured, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return m, fmt.Errorf("read measured times: %w", err)
	}
	for line := range bytes.Lines(b) {
		var r struct{ Measured *Measured }
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return m, fmt.Errorf("measured times in %s: %w", path, err)
		}
		if r.Measured != nil {
			m = *r.Measured
		}
	}
	if err := m.check(); err != nil {
		return m, fmt.Errorf("measured times in %s: %w", path, err)
	}
	return m, nil
}

func (m Measured) check() error {
	var c checker
	for _, v := range []struct {
		key   string
		value float64
	}{{"tokens", m.Tokens}, {"forward", m.Forward}, {"step", m.Step}} {
		c.ok(v.value > 0 && v.value <= math.MaxFloat32, "%s is %g, want a number above 0", v.key, v.value)
	}
	c.time("pack", m.Pack)
	c.time("optimizer", m.Optimizer)
	c.time("turn", m.Turn)
	c.time("handoff", m.Handoff)
	return errors.Join(c...)
}

// With returns the scenario with measured times in place of its own. How times vary with length and from batch to batch stays
// as it is.
func (s *Scenario) With(m Measured) *Scenario {
	out := *s
	full := float64(s.Batch) / m.Tokens
	out.Target.Cost = s.Target.Cost.taking(m.Forward * full)
	out.Draft.Cost = s.Draft.Cost.taking(m.Step * full)
	out.Pack.Cost = s.Pack.Cost.taking(m.Pack * full)
	out.Pack.Copy, out.Draft.Optimizer, out.Handoff = 0, m.Turn, m.Handoff
	return &out
}

// taking is the cost of full batches that take so long on average.
func (c Cost) taking(seconds float64) Cost {
	if seconds == 0 {
		return Cost{Noise: c.Noise}
	}
	if c.Token+c.Square+c.Slot == 0 {
		c.Token = 1
	}
	c.Batch = seconds
	return c
}

// Bound is the tokens a second that the scenario's devices allow by the measured times of target and rank alone: what the
// targets can do, what the ranks can do, and what both can do on the devices there are, if each worked without a pause.
func (s *Scenario) Bound(m Measured) float64 {
	targets, ranks := float64(s.Target.Instances), float64(s.Draft.Instances)
	step := m.Step + m.Optimizer*ranks/float64(s.Window.Batches)
	bound := min(m.Tokens*targets/m.Forward, m.Tokens*ranks/step)
	if n := float64(s.GPUs); n > 0 {
		bound = min(bound, m.Tokens*n/(m.Forward+step))
	}
	return bound
}
