package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"penstock/schema"
	"penstock/stages/internal/rundir"
)

// DefaultConfig is the configuration of a new run for which none is named.
const DefaultConfig = "deploy/config/tiny.yaml"

// Flags are the flags that penstock and the stage binaries share.
type Flags struct {
	Config   string
	Sets     []string
	NATS     string
	Device   string
	Run      string
	Instance string // of stage binaries only
}

// Register adds the shared flags to fs.
func (f *Flags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.Config, "config", "", "configuration `FILE` (default: the run's own, or "+DefaultConfig+" for a new run)")
	fs.StringArrayVar(&f.Sets, "set", nil, "`key=value` to change in the configuration; may be repeated")
	fs.StringVar(&f.NATS, "nats", "", "`URL` of an external NATS server (default: the run's embedded broker)")
	fs.StringVar(&f.Device, "device", "", "cpu[/PATH], cuda[:K], or cuda:A-B for a run on several GPUs (default: the configuration's)")
	fs.StringVar(&f.Run, "run", "", "run `DIR` (default: the newest under "+rundir.Root+"/)")
}

// Args returns the flags as arguments for a stage of the run in dir.
func (f *Flags) Args(dir *rundir.Dir) []string {
	args := []string{"--run", dir.Path()}
	if f.Config != "" {
		args = append(args, "--config", f.Config)
	}
	for _, s := range f.sets() {
		args = append(args, "--set", s)
	}
	return args
}

// sets returns every change to the configuration that the flags ask for.
func (f *Flags) sets() []string {
	sets := f.Sets
	if f.NATS != "" {
		sets = append(sets[:len(sets):len(sets)], "broker.url="+f.NATS)
	}
	if f.Device != "" {
		sets = append(sets[:len(sets):len(sets)], "device="+f.Device)
	}
	return sets
}

// Name is what a new run is called after: its configuration file.
func (f *Flags) Name() string {
	return strings.TrimSuffix(filepath.Base(f.configFile()), filepath.Ext(f.configFile()))
}

func (f *Flags) configFile() string {
	if f.Config == "" {
		return DefaultConfig
	}
	return f.Config
}

// Load reads and validates the configuration that the flags describe, for a run that has none yet.
func (f *Flags) Load() (schema.Config, error) {
	path := f.configFile()
	if _, err := os.Stat(path); f.Config == "" && errors.Is(err, fs.ErrNotExist) {
		return schema.Config{}, fmt.Errorf("no configuration: name one with --config FILE (%s is not there)", path)
	}
	return schema.LoadConfig(path, f.sets())
}

// Parse applies the flags to a configuration's text; name stands for it in errors.
func (f *Flags) Parse(name string, text []byte) (schema.Config, error) {
	return schema.ParseConfig(name, text, f.sets())
}

// Resolve returns the validated configuration of the run in dir. The first caller writes it to config.yaml; later ones
// may change what does not alter the arithmetic, and are refused with the differences otherwise.
func (f *Flags) Resolve(dir *rundir.Dir) (schema.Config, error) {
	stored, err := dir.Config()
	if err != nil {
		return schema.Config{}, err
	}
	if stored == nil {
		cfg, err := f.Load()
		if err != nil {
			return cfg, err
		}
		b, err := cfg.YAML()
		if err != nil {
			return cfg, err
		}
		err = dir.WriteConfig(b)
		if !errors.Is(err, fs.ErrExist) {
			return cfg, err
		}
		if stored, err = dir.Config(); err != nil { // another process of the run was first
			return cfg, err
		}
	}
	old, err := schema.ParseConfig(dir.ConfigFile(), stored, nil)
	if err != nil {
		return old, err
	}
	var cfg schema.Config
	if f.Config != "" {
		cfg, err = f.Load()
	} else {
		cfg, err = f.Parse(dir.ConfigFile(), stored)
	}
	if err != nil {
		return cfg, err
	}
	if diff := schema.Diff(old, cfg); len(diff) > 0 {
		return cfg, fmt.Errorf("run %s was started with another configuration, and these change its result: %s: start a new run, or leave them as they were",
			dir.Path(), strings.Join(diff, "; "))
	}
	return cfg, nil
}

// stageDir returns the run directory of a stage that was started by itself: the named one, created if a configuration
// is named too, or the newest; else it waits for one.
func (f *Flags) stageDir(ctx context.Context, log *slog.Logger) (*rundir.Dir, error) {
	if f.Run != "" && f.Config != "" {
		return rundir.Make(f.Run)
	}
	what := "a run directory under " + rundir.Root + "/"
	open := func() (*rundir.Dir, error) { return rundir.Newest(rundir.Root) }
	if f.Run != "" {
		what = "a configuration in " + f.Run
		open = func() (*rundir.Dir, error) { return rundir.Open(f.Run) }
	}
	var dir *rundir.Dir
	err := await(ctx, log, what, func() (bool, error) {
		var err error
		dir, err = open()
		if errors.Is(err, rundir.ErrNone) {
			return false, nil
		}
		return err == nil, err
	})
	return dir, err
}
