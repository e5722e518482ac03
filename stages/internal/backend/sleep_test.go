package backend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock/kernels"
)

const scenarioText = `
seed: 1
lengths: {documents: 1, shares: [{edge: 64, share: 1}]}
batch: 64
window: {batches: 1, lookahead: 1}
anchors: 1
block: 1
row: 1
target: {instances: 1, slots: 2, cost: {token: 1e-3, square: 1e-5}}
pack: {instances: 1, slots: 2, cost: {token: 2e-3}}
draft: {instances: 1, cost: {token: 1e-4, slot: 1e-3}}
`

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is enqueued is charged once by its first op, and Sync takes that long and no more than once.
func TestSleepTakesTheTimesOfTheScenario(t *testing.T) {
	d, err := Open("sleep/" + file(t, scenarioText))
	if err != nil {
		t.Fatal(err)
	}
	s := d.(*sleeper)
	none := kernels.Tensor{}
	forward := func() {
		d.CausalAttention(none, none, none, none, []kernels.Segment{{Q0: 0, Q1: 10}, {Q0: 10, Q1: 30}}, kernels.Heads{})
	}
	for _, c := range []struct {
		name string
		do   func()
		want time.Duration
	}{
		{"forward of 10 and 20 tokens, two layers", func() { forward(); forward() }, 35 * time.Millisecond},
		{"copy of 20 rows, two planes", func() { r := d.Alloc(20, 4); d.CopyCols(r, 0, none); d.CopyCols(r, 2, none) }, 40 * time.Millisecond},
		{"step of 2 blocks of 8 over 30 rows", func() {
			d.BlockAttention(none, none, none, d.Alloc(30, 1), none, none, none, make([]kernels.Block, 2), 8, kernels.Heads{})
		}, 19 * time.Millisecond},
		{"nothing", func() {}, 0},
	} {
		began, late := time.Now(), s.late
		c.do()
		if s.due.Round(time.Microsecond) != c.want {
			t.Errorf("%s: %v is due, want %v", c.name, s.due, c.want)
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < c.want-late {
			t.Errorf("%s took %v, want %v", c.name, took, c.want)
		}
		if s.due != 0 {
			t.Errorf("%s: %v is still due", c.name, s.due)
		}
	}
	if sum := Checksum("sleep/x")(make([]float32, 3)); sum != d.CheckFeatures(none).Checksum {
		t.Error("the device and Checksum state different sums")
	}
}

func TestSleepRefuses(t *testing.T) {
	relative := strings.Replace(scenarioText, "slot: 1e-3", "slot: 1, batch: 2", 1)
	for name, want := range map[string]string{
		"sleep/no-such.yaml":           "no-such.yaml",
		"sleep/" + file(t, relative):   "relative to a plan",
		"sleep/" + file(t, "batch: 1"): "lengths",
	} {
		if _, err := Open(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
