package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"penstock/schema"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/supervise"
)

// fleet lists the processes of a run in the order of the flow. The broker is first, unless the configuration names an
// external one. Where metrics.port is set, each process has a port of its own: that one, the next, and so on.
func fleet(f runtime.Flags, dir *rundir.Dir, cfg schema.Config) ([]supervise.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the stage binaries: %w", err)
	}
	var ps []supervise.Process
	for _, s := range []struct {
		stage string
		n     int
	}{{"broker", 1}, {"batch", 1}, {"target", cfg.Target.Instances}, {"pack", cfg.Pack.Instances}, {"draft", cfg.Draft.Ranks}} {
		if s.stage == "broker" && cfg.Broker.URL != "" {
			continue
		}
		path := filepath.Join(filepath.Dir(self), s.stage)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("the %s binary is not beside %s: build all of them with `./task build`", s.stage, self)
		} else if err != nil {
			return nil, fmt.Errorf("find the %s binary: %w", s.stage, err)
		}
		for i := range s.n {
			name := runtime.Instance(s.stage, i+1)
			args := append(f.Args(dir), own(cfg, name, len(ps))...)
			args = append(args, placed(cfg, s.stage, i)...)
			ps = append(ps, supervise.Process{Name: name, Path: path, Log: dir.Log(name), Args: args})
		}
	}
	return ps, nil
}

// own are the arguments of the nth process, counted from 0, that no other has.
func own(cfg schema.Config, name string, nth int) []string {
	args := []string{"--instance", name}
	if first := cfg.Metrics.Port; first != 0 {
		args = append(args, "--set", fmt.Sprintf("metrics.port=%d", first+nth))
	}
	return args
}

// placed are the arguments that give the kth process of a stage, counted from 0, one of a run's several GPUs. Broker and
// batch use none.
func placed(cfg schema.Config, stage string, k int) []string {
	g, ok := schema.ParseGPUs(cfg.Device)
	if !ok || g.N == 1 || stage == "broker" || stage == "batch" {
		return nil
	}
	return []string{"--device", g.Name(g.At(stage, k, cfg.Target.Instances))}
}
