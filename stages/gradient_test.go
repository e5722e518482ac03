package stages_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"

	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/stages/internal/lineage"
	"penstock/stages/stagestest"
)

// TestGradientNotFinite has features that turn bad behind every test of them: the step is skipped, its window is committed,
// and the tensor is named.
func TestGradientNotFinite(t *testing.T) {
	config := stagestest.Config(t, 24, func(c *schema.Config) { c.Broker.AckWait = "1s" })
	calls := 0
	p := poisoned(t, config, "pack-1", func(int, int) bool { calls++; return calls == 4 }, poisons[0].spoil) // what it reads, what it wrote, ...
	if err := p.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := count(t, p); got.Skipped == 0 || got.Documents != 24 || got.Missing != 0 || got.Rejected != 0 || got.Windows != got.Planned {
		t.Errorf("ledger %+v, want a skipped window and nothing missing", got)
	}
	lines, err := lineage.Read(p.Dir.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, l := range lines {
		if l.Skipped {
			skipped++
		}
	}
	if skipped != 1 {
		t.Errorf("%d windows skipped, want 1", skipped)
	}
	if m := skippedTensors(t, p); len(m) != 1 || m[0] == "" {
		t.Errorf("tensors named %q", m)
	}
	c, _, err := checkpoint.Latest(p.Dir.Checkpoints())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, s := range c.Drafter.Shapes() {
		v, err := c.Weights.Float32(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range v {
			if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
				t.Fatalf("%s is not finite", s.Name)
			}
		}
	}
}

// skippedTensors reads the tensors that the metrics name for skipped steps.
func skippedTensors(t *testing.T, p *stagestest.Pipeline) (names []string) {
	t.Helper()
	b, err := os.ReadFile(p.Dir.Metrics())
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var m struct{ Skipped string }
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		if m.Skipped != "" {
			names = append(names, m.Skipped)
		}
	}
	return names
}
