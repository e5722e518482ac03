//go:build overhead

package observe_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/stagestest"
)

// TestOverhead holds the processor time that tracing every batch costs against that of the default run: user and system
// time of all processes. What tracing costs is taken from runs whose work is empty, where it is a part that can be seen, and
// the run's own time from the first steps of the default configuration. Other work on the machine only ever adds to such a
// time, by what it takes of caches and cores, so the least of several counts.
func TestOverhead(t *testing.T) {
	const pairs = 3
	empty := stagestest.Config(t, 1500, func(c *schema.Config) { c.Device, c.Train.Epochs = "null", 8 }) // that starting takes no part
	off, on, batches := math.Inf(1), math.Inf(1), 0
	for range pairs {
		var r receiver
		off = min(off, cpu(t, empty))
		on = min(on, cpu(t, empty, r.overHTTP(t)...))
		traces, _ := r.sorted()
		batches = len(traces)
	}
	c, err := schema.LoadConfig(filepath.Join(stagestest.Root(), "deploy/config/tiny.yaml"), []string{"train.max_steps=60", "eval.prompts=", "eval.every=0",
		"target.dir=" + filepath.Join(stagestest.Root(), "deploy/demo/models/tiny-go"),
		"data.files=[" + filepath.Join(stagestest.Root(), "deploy/demo/data/tiny-go-chat.jsonl") + "]"})
	if err != nil {
		t.Fatal(err)
	}
	real, traced := math.Inf(1), 0
	for range pairs {
		var r receiver
		real = min(real, cpu(t, c, r.overHTTP(t)...))
		traces, _ := r.sorted()
		traced = len(traces)
	}
	perBatch, cost := real/float64(traced), (on-off)/float64(batches)
	t.Logf("empty work: %.2f s of processor time untraced, %.2f s traced, %d batches: %.2f ms a batch", off, on, batches, 1000*cost)
	t.Logf("default run: %.1f s, %d batches: %.0f ms a batch", real, traced, 1000*perBatch)
	t.Logf("tracing costs %.2f %% of the default run", 100*cost/perBatch)
	if cost/perBatch > 0.01 {
		t.Error("that is more than 1 %")
	}
}

// cpu returns the seconds of processor time that a run takes, over all of its processes.
func cpu(t *testing.T, c schema.Config, env ...string) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	_, up := command(t, ctx, c)
	up.Env = append(os.Environ(), env...)
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	return (up.ProcessState.UserTime() + up.ProcessState.SystemTime()).Seconds()
}
