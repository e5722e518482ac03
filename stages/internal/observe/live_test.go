package observe_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/stagestest"
)

// told is what each stage must tell Prometheus while it works, by the beginnings of lines.
var told = map[string][]string{
	"broker": {"penstock_stream_messages{"},
	"batch": {"penstock_bucket_stock{", "penstock_bucket_open{", "penstock_bucket_credit{", "penstock_batches_total{", "penstock_tokens_total{",
		`penstock_idle_seconds_total{cause="window"`},
	"target": {"penstock_slots{", "penstock_slots_used{", "penstock_tokens_total{", `penstock_idle_seconds_total{cause="`, "penstock_work_seconds_bucket{",
		`penstock_redeliveries_total{edge="ps.fwd"`, "penstock_rejects_total{"},
	"pack": {"penstock_slots_used{", "penstock_handoff_seconds_bucket{", "penstock_work_seconds_bucket{", `penstock_redeliveries_total{edge="ps.pack"`,
		`penstock_idle_seconds_total{cause="no input"`, `penstock_rejects_total{`},
	"draft": {"penstock_loss{", "penstock_gradient_norm{", "penstock_learning_rate{", `penstock_acceptance{position="7"`, `penstock_hits{position="7"`,
		`penstock_eval_acceptance{position="7"`, "penstock_accept_length{", "penstock_step_seconds_bucket{", "penstock_handoff_seconds_bucket{",
		`penstock_redeliveries_total{edge="ps.train"`, "penstock_trained_tokens{", "penstock_trained_slots{"},
}

// TestEveryProcessTells asks the processes of a run for their metrics until all have said what they should.
func TestEveryProcessTells(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := stagestest.Config(t, 600, func(c *schema.Config) {
		c.Train.Epochs = 100
		c.Eval = schema.EvalConfig{Prompts: filepath.Join(stagestest.Root(), "deploy/demo/data/tiny-go-heldout-prompts.json"), Every: 1, Limit: 1, MaxNew: 8}
	})
	dir, up := command(t, ctx, c)
	var out strings.Builder
	up.Stdout, up.Stderr = &out, &out
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, ctx, "every metric", func() error {
		for _, instance := range []string{"broker", "batch", "target-1", "target-2", "pack-1", "draft-1"} {
			if err := tells(ctx, dir, instance); err != nil {
				return err
			}
		}
		return nil
	})
	if text, err := exec.CommandContext(ctx, filepath.Join(bin, "penstock"), "stop", "--run", dir).CombinedOutput(); err != nil {
		t.Errorf("stop: %v\n%s", err, text)
	}
	if err := up.Wait(); err != nil {
		t.Errorf("up: %v\n%s", err, out.String())
	}
}

// tells asks one process for its metrics and returns what is missing.
func tells(ctx context.Context, dir, instance string) error {
	url, err := os.ReadFile(filepath.Join(dir, "metrics", instance))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSpace(string(url))+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	stage, _, _ := strings.Cut(instance, "-")
	want := told[stage]
	if stage != "broker" {
		name, err := os.ReadFile(filepath.Join(dir, "name"))
		if err != nil {
			return err
		}
		want = append(want[:len(want):len(want)],
			`penstock_generation{process="`+instance+`",run="`+strings.TrimSpace(string(name))+`",stage="`+stage+`"} 1`)
	}
	for _, line := range want {
		if !strings.Contains(string(b), "\n"+line) {
			return fmt.Errorf("%s does not tell %s", instance, line)
		}
	}
	return nil
}
