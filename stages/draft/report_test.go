package draft

import (
	"os"
	"strings"
	"testing"

	"penstock/schema/checkpoint"
	"penstock/stages/internal/metrics"
	"penstock/stages/internal/observe"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// TestWindowWithoutALoss: where a step is skipped for a loss that is not finite, or every batch of a window is dead, no loss of 0 is
// written, shown or averaged.
func TestWindowWithoutALoss(t *testing.T) {
	dir, err := rundir.Make(t.TempDir() + "/run")
	if err != nil {
		t.Fatal(err)
	}
	w := &worker.Worker{Env: &runtime.Env{Run: dir}, Observer: &observe.Observer{Metrics: metrics.New("r", "draft", "draft-1")}}
	r, err := newReporter(w, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for i, m := range []metric{{Loss: 4, CrossEntropy: 3, GradNorm: 1}, {Skipped: "fc.weight"}, {Loss: 2, CrossEntropy: 1, GradNorm: 5}, {}} {
		m.Window = uint32(i)
		r.remember(m)
		if err := r.window(m, checkpoint.State{}); err != nil {
			t.Fatal(err)
		}
		for _, s := range m.scalars() {
			if s.Value == 0 && (s.Tag == "train/loss" || s.Tag == "train/cross_entropy" || s.Tag == "train/grad_norm") {
				t.Errorf("window %d draws a %s of 0", i, s.Tag)
			}
		}
		if p := r.latest; i == 1 && (p.Loss != 4 || p.CrossEntropy != 3 || p.GradNorm != 1) {
			t.Errorf("behind a window without a loss, progress is %+v", p)
		}
	}
	if got := r.lately(); mean(got.Losses) != 3 || mean(got.CrossEntropies) != 2 || r.latest.Loss != 2 {
		t.Errorf("means of %+v, latest %+v", got, r.latest)
	}
	b, err := os.ReadFile(dir.Metrics())
	if lines := strings.Split(strings.TrimSpace(string(b)), "\n"); err != nil || len(lines) != 4 || strings.Contains(lines[1]+lines[3], "loss") {
		t.Errorf("metrics.jsonl, %v: %s", err, b)
	}
}
