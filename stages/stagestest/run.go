// Package stagestest runs the whole pipeline inside a test: the real stages, a real broker, a small part of the demo data.
package stagestest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sync/errgroup"

	"penstock/broker"
	"penstock/kernels"
	"penstock/schema"
	"penstock/stages/batch"
	brokerstage "penstock/stages/broker"
	"penstock/stages/draft"
	"penstock/stages/internal/rundir"
	stageruntime "penstock/stages/internal/runtime"
	"penstock/stages/pack"
	"penstock/stages/target"
)

// Root is the repository's root.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Config is a run of a few steps over the first documents of the demo data, written to a file of the test's.
func Config(t testing.TB, documents int, change func(*schema.Config)) schema.Config {
	t.Helper()
	demo := filepath.Join(Root(), "deploy", "demo")
	data := filepath.Join(t.TempDir(), "chats.jsonl")
	if err := head(filepath.Join(demo, "data", "tiny-go-chat.jsonl"), data, documents); err != nil {
		t.Fatal(err)
	}
	c := schema.Default()
	c.Target = schema.TargetConfig{Dir: filepath.Join(demo, "models", "tiny-go"), Instances: 2, Slots: 3, Taps: []int{1, 2, 4}}
	c.Data.Files, c.Data.MaxLength, c.Data.Buckets = []string{data}, 512, "auto:3"
	c.Batch.Tokens = 512
	c.Window = schema.WindowConfig{Batches: 3, Lookahead: 1}
	c.Train.Anchors, c.Train.Epochs, c.Train.Gamma, c.Train.LR = 4, 1, 4, 1e-3
	c.Draft.BlockSize, c.Draft.Layers = 8, 1
	c.Eval.Prompts = ""
	c.Broker.AckWait = "5s"
	if change != nil {
		change(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// Pipeline is a run in progress.
type Pipeline struct {
	Dir    *rundir.Dir
	Config schema.Config
	// Fault, if set, decides what becomes of the messages of an instance. One that is cut off is started again.
	Fault func(instance string, op broker.Op, subject string) broker.Outcome
	// Unattended leaves an instance that is cut off where it is, and its work to whoever notices.
	Unattended bool
	// Open, if set, opens the device of an instance.
	Open func(instance, device string) (kernels.Device, error)

	log slog.Handler
}

// New makes a run directory for a configuration.
func New(t testing.TB, c schema.Config) *Pipeline {
	t.Helper()
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	return &Pipeline{Dir: dir, Config: c, log: slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})}
}

// Env is the environment of one stage process of the run.
func (p *Pipeline) Env(stage string, n int) *stageruntime.Env {
	name := stageruntime.Instance(stage, n)
	env := &stageruntime.Env{Config: p.Config, Run: p.Dir, Stage: stage, Instance: name, Device: p.Config.Device,
		Log: slog.New(p.log).With("instance", name)}
	if p.Open != nil {
		env.Open = func(device string) (kernels.Device, error) { return p.Open(name, device) }
	}
	return env
}

// Run runs every stage until the drafter is trained, and beside, if not nil, while they run.
func (p *Pipeline) Run(ctx context.Context, beside func(context.Context) error) error {
	g, ctx := errgroup.WithContext(ctx)
	serve, stop := context.WithCancel(ctx)
	g.Go(func() error {
		if p.Config.Broker.URL != "" {
			return nil
		}
		if err := brokerstage.Run(serve, p.Env("broker", 1)); serve.Err() == nil {
			return fmt.Errorf("broker: %w", err)
		}
		return nil
	})
	work, ctx := errgroup.WithContext(ctx)
	start := func(stage string, n int, run func(context.Context, *stageruntime.Env) error) {
		for i := range n {
			work.Go(func() error {
				if err := p.keep(ctx, stage, i+1, run); err != nil {
					return fmt.Errorf("%s-%d: %w", stage, i+1, err)
				}
				return nil
			})
		}
	}
	start("draft", p.Config.Draft.Ranks, draft.Run)
	start("pack", p.Config.Pack.Instances, pack.Run)
	start("target", p.Config.Target.Instances, target.Run)
	start("batch", 1, batch.Run)
	side, sideCtx := errgroup.WithContext(ctx)
	sideCtx, endSide := context.WithCancel(sideCtx)
	if beside != nil {
		side.Go(func() error { return beside(sideCtx) })
	}
	err := work.Wait()
	endSide()
	if serr := side.Wait(); err == nil && serr != nil && sideCtx.Err() == nil {
		err = serr
	}
	stop()
	if berr := g.Wait(); err == nil {
		err = berr
	}
	return err
}

// head copies the first n lines of a file.
func head(from, to string, n int) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	var out bytes.Buffer
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for i := 0; i < n && sc.Scan(); i++ {
		out.Write(sc.Bytes())
		out.WriteByte('\n')
	}
	if err := sc.Err(); err != nil {
		return err
	}
	return os.WriteFile(to, out.Bytes(), 0o644)
}
