package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"penstock/schema"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

// TestEachProcessHasItsMetricsPort: of a fixed port the processes take that one and those behind it.
func TestEachProcessHasItsMetricsPort(t *testing.T) {
	cfg := schema.Default()
	for _, c := range []struct {
		port, nth int
		want      string
	}{{0, 3, "--instance pack-1"}, {9400, 0, "--instance pack-1 --set metrics.port=9400"}, {9400, 3, "--instance pack-1 --set metrics.port=9403"}} {
		cfg.Metrics.Port = c.port
		if got := strings.Join(own(cfg, "pack-1", c.nth), " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestFleetIsPlaced: of several GPUs each process is given one, of one or none nobody is.
func TestFleetIsPlaced(t *testing.T) {
	cfg := schema.Default()
	cfg.Target.Instances = 2
	for _, c := range []struct {
		device, stage string
		k             int
		want          string
	}{
		{"cpu", "target", 0, ""}, {"cuda", "target", 1, ""}, {"cuda:5", "draft", 0, ""},
		{"cuda:0-3", "broker", 0, ""}, {"cuda:0-3", "batch", 0, ""},
		{"cuda:0-3", "target", 1, "--device cuda:1"}, {"cuda:0-3", "pack", 0, "--device cuda:2"}, {"cuda:0-3", "draft", 1, "--device cuda:3"},
		{"cuda:0-3", "draft", 2, "--device cuda:0"}, {"cuda:4-6/float32", "pack", 0, "--device cuda:6/float32"},
	} {
		cfg.Device = c.device
		if got := strings.Join(placed(cfg, c.stage, c.k), " "); got != c.want {
			t.Errorf("%s, %s %d: %q, want %q", c.device, c.stage, c.k, got, c.want)
		}
	}
}

// TestPlaceIsTheStagesDevice: what `up` was told of several GPUs, and what it tells a stage behind that, leave the stage with its own.
func TestPlaceIsTheStagesDevice(t *testing.T) {
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	up := runtime.Flags{Device: "cuda:0-1"}
	cfg, err := up.Parse("test", []byte("target: {dir: x, taps: [0]}\ndata: {files: [x]}\neval: {prompts: x}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var stage runtime.Flags
	fs := pflag.NewFlagSet("draft", pflag.ContinueOnError)
	stage.Register(fs)
	if err := fs.Parse(append(up.Args(dir), placed(cfg, "draft", 0)...)); err != nil {
		t.Fatal(err)
	}
	text, err := cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	own, err := stage.Parse("config.yaml", text)
	if err != nil || own.Device != "cuda:1" {
		t.Errorf("device %q, %v", own.Device, err)
	}
	if diff := schema.Diff(cfg, own); len(diff) > 0 {
		t.Errorf("a stage's place changes the arithmetic: %v", diff)
	}
}
