package metrics

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"penstock/schema"
	"penstock/stages/internal/nvml"
)

// known returns the labels of every metric that some process of a run has, by name, those of Go and the system included.
func known(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := map[string]map[string]bool{}
	for _, stage := range []string{"broker", "batch", "target", "pack", "draft", "up"} {
		s := New("r", stage, stage)
		if stage == "broker" {
			s.WatchStreams("r", func() map[string]uint64 { return map[string]uint64{"PS_FWD": 1} })
		} else if stage != "up" {
			s.Watch("r", stage, stage, func() schema.StageState {
				return schema.StageState{Slots: 1, Seconds: map[string]float64{"compute": 1, "no input": 1}}
			})
			s.WatchGPU("r", stage, stage, "cuda:0", func(int) (nvml.State, error) { return nvml.State{}, nil })
			s.Work("x", 1)
			s.Redelivered("ps.fwd")
		}
		if stage == "batch" {
			s.Bucket(schema.BucketState{Bucket: "b1"}, 0, 0)
		}
		if stage == "draft" {
			s.Progress(schema.Progress{Hits: []float32{0.5}})
			s.Accepted([]float32{0.5})
			s.Turn("step", 1)
			s.Evaluated([]float64{0.5})
		}
		families, err := s.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			names := []string{f.GetName()}
			if f.Metric[0].Histogram != nil {
				names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
			}
			for _, n := range names {
				if all[n] == nil {
					all[n] = map[string]bool{"job": true, "instance": true, "le": strings.HasSuffix(n, "_bucket")}
				}
				for _, m := range f.Metric {
					for _, l := range m.Label {
						all[n][l.GetName()] = true
					}
				}
			}
		}
	}
	all["up"] = map[string]bool{"job": true, "instance": true}
	return all
}

var (
	selector  = regexp.MustCompile(`([a-z_]+)\s*(\{[^}]*\})?`)
	label     = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
	grouping  = regexp.MustCompile(`by \(([^)]*)\)`)
	functions = strings.Fields("avg by rate changes and sum increase delta or avg_over_time min_over_time histogram_quantile max deriv m h")
)

// check holds one expression: its metrics exist, and have the labels that it selects and groups by.
func check(all map[string]map[string]bool, expr string) error {
	if strings.Count(expr, "(") != strings.Count(expr, ")") {
		return fmt.Errorf("%s: parentheses do not match", expr)
	}
	bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`)
	var grouped []string
	for _, g := range grouping.FindAllStringSubmatch(bare, -1) {
		for _, l := range strings.Split(g[1], ",") {
			grouped = append(grouped, strings.TrimSpace(l))
		}
	}
	bare = grouping.ReplaceAllString(bare, "by")
	used := 0
	for _, m := range selector.FindAllStringSubmatch(bare, -1) {
		name := m[1]
		labels, ok := all[name]
		if !ok {
			if contains(functions, name) {
				continue
			}
			return fmt.Errorf("%s: no process has %s", expr, name)
		}
		used++
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if !labels[l[1]] {
				return fmt.Errorf("%s: %s has no label %s", expr, name, l[1])
			}
		}
		for _, l := range grouped {
			if !labels[l] {
				return fmt.Errorf("%s: %s cannot be grouped by %s", expr, name, l)
			}
		}
	}
	if used == 0 {
		return fmt.Errorf("%s: uses no metric", expr)
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func TestCheckFindsMistakes(t *testing.T) {
	all := known(t)
	for expr, good := range map[string]bool{
		`rate(penstock_tokens_total{run=~"$run"}[1m])`:                           true,
		`sum by (edge) (rate(penstock_redeliveries_total[5m]))`:                  true,
		`rate(penstock_token_total[1m])`:                                         false,
		`penstock_loss{bucket="b96"}`:                                            false,
		`sum by (bucket) (penstock_loss)`:                                        false,
		`sum(penstock_loss`:                                                      false,
		`histogram_quantile(0.9, sum by (le) (penstock_handoff_seconds_bucket))`: true,
		`penstock_handoff_seconds`:                                               false,
	} {
		if err := check(all, expr); (err == nil) != good {
			t.Errorf("%s: %v", expr, err)
		}
	}
}

func TestDashboardUsesMetricsThatExist(t *testing.T) {
	b, err := os.ReadFile("../../../deploy/grafana/penstock.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title  string
		Panels []struct {
			Title, Type, Description string
			Targets                  []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &board); err != nil {
		t.Fatal(err)
	}
	all, used := known(t), ""
	panels := 0
	for _, p := range board.Panels {
		if p.Type == "row" {
			continue
		}
		panels++
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q lacks a title, a description or an expression", p.Title)
		}
		for _, target := range p.Targets {
			used += target.Expr + "\n"
			if err := check(all, target.Expr); err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
			}
		}
	}
	if panels < 15 {
		t.Errorf("%d panels", panels)
	}
	for name := range all { // whatever the project measures is on the board
		if base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count"); strings.HasPrefix(name, "penstock_") && !strings.Contains(used, base) &&
			name != "penstock_bucket_floor" && name != "penstock_bucket_ceiling" && name != "penstock_bucket_published" && name != "penstock_trained_slots" {
			t.Errorf("no panel shows %s", name)
		}
	}
}

func TestAlertsUseMetricsThatExist(t *testing.T) {
	b, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../../deploy/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	all, names := known(t), map[string]bool{}
	for _, r := range file.Groups[0].Rules {
		names[r.Alert] = true
		if err := check(all, r.Expr); err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks severity, summary or description", r.Alert)
		}
		if !strings.Contains(string(guide), "### "+r.Alert+"\n") {
			t.Errorf("operations.md does not say what %s means", r.Alert)
		}
	}
	for _, want := range []string{"PenstockStarving", "PenstockStuck", "PenstockRejecting", "PenstockDiverging"} {
		if !names[want] {
			t.Errorf("no alert %s", want)
		}
	}
}

// TestGuidesNameMetricsThatExist holds the guides' metrics, or how their names begin.
func TestGuidesNameMetricsThatExist(t *testing.T) {
	files, err := filepath.Glob("../../../deploy/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all, named := known(t), 0
	for _, file := range append(files, "../../../README.md") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bpenstock_[a-z_]+`).FindAllString(string(b), -1) {
			named++
			found := all[name] != nil
			for known := range all {
				found = found || strings.HasSuffix(name, "_") && strings.HasPrefix(known, name)
			}
			if !found {
				t.Errorf("%s: no process has %s", file, name)
			}
		}
	}
	if named < 4 {
		t.Errorf("the guides name %d metrics", named)
	}
}

func TestGPUMetrics(t *testing.T) {
	for device, want := range map[string]string{"cuda": "0", "cuda:3": "3", "cuda:2/float32": "2", "cpu": "", "cuda:0-7": "", "null": ""} {
		s := New("r", "target", "target-1")
		s.WatchGPU("r", "target", "target-1", device, func(i int) (nvml.State, error) { return nvml.State{Busy: 0.5, Used: uint64(i) + 1, Total: 10}, nil })
		text := scrape(t, s)
		for name, value := range map[string]string{"utilization_ratio": "0.5", "memory_used_bytes": want, "memory_total_bytes": "10"} {
			if name == "memory_used_bytes" && want != "" {
				value = fmt.Sprint(int(want[0]-'0') + 1)
			}
			line := "penstock_gpu_" + name + `{gpu="` + want + `",process="target-1",run="r",stage="target"} ` + value + "\n"
			if strings.Contains(text, line) != (want != "") || want == "" && strings.Contains(text, "penstock_gpu_") {
				t.Errorf("%s: %s", device, text)
			}
		}
	}
	divided := New("r", "target", "target-1")
	divided.WatchGPU("r", "target", "target-1", "cuda", func(int) (nvml.State, error) { return nvml.State{Busy: math.NaN(), Total: 10}, nil })
	if text := scrape(t, divided); strings.Contains(text, "penstock_gpu_utilization_ratio{") || !strings.Contains(text, "penstock_gpu_memory_total_bytes{") {
		t.Errorf("a GPU that does not tell how busy it is: %s", text)
	}
	absent := New("r", "target", "target-1")
	absent.WatchGPU("r", "target", "target-1", "cuda", func(int) (nvml.State, error) { return nvml.State{}, os.ErrNotExist })
	if _, err := absent.registry.Gather(); err != nil {
		t.Errorf("a GPU that does not answer spoils the scrape: %v", err)
	}
}
