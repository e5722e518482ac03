package draft

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"penstock/kernels"
	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/schema/hf"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/lineage"
	"penstock/stages/internal/model"
	"penstock/stages/internal/worker"
)

// scratches is how many gradients may be on their way from the device into the sum.
const scratches = 3

// trainer is the state of the rank.
type trainer struct {
	w     *worker.Worker
	run   *worker.RunPlan
	dev   kernels.Device
	sum   func([]float32) uint64 // checksum of features
	width int
	gen   uint32

	drafter  *model.Drafter
	opt      *model.Optimizer
	grads    *model.Params // sum of the open window
	loss     model.Loss
	schedule model.Schedule
	state    checkpoint.State
	lines    *lineage.Writer
	report   *reporter
	began    time.Time

	views     *worker.Views
	park      *worker.Park
	settle    *worker.Settler
	evaluator *evaluator
	traces    *traces
	flight    flight
	buffers   chan kernels.Tensor // free copies of features
	ready     chan item           // claimed and copied
	scratch   chan *model.Params  // free scratch gradients
	recorded  chan scratch        // computed, and the ledger knows
}

// newTrainer loads the newest good checkpoint, or initialises a drafter, and allocates everything that training needs.
func newTrainer(w *worker.Worker, run *worker.RunPlan, dev kernels.Device) (*trainer, error) {
	cfg := w.Config
	target, err := hf.OpenTarget(cfg.Target.Dir)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	shape, err := worker.DrafterConfig(cfg, target)
	if err != nil {
		return nil, err
	}
	t := &trainer{w: w, run: run, dev: dev, sum: backend.Checksum(w.Device), width: len(shape.Taps) * target.HiddenSize, began: time.Now(),
		loss:     model.Loss{Kind: model.LossKind(cfg.Train.Loss), Gamma: cfg.Train.Gamma, Alpha: cfg.Train.Alpha},
		schedule: worker.Schedule(cfg, run.Plan.Windows()),
		views:    w.OpenViews(),
		park:     worker.NewPark(w.Keeper),
		settle:   worker.NewSettler(),
		traces:   newTraces(w),
		buffers:  make(chan kernels.Tensor, intakes+scratches),
		ready:    make(chan item, intakes),
		scratch:  make(chan *model.Params, scratches),
		recorded: make(chan scratch, scratches),
	}
	vocab, err := model.LoadVocabulary(dev, target)
	if err != nil {
		return nil, fmt.Errorf("load vocabulary of %s: %w", cfg.Target.Dir, err)
	}
	if err := t.restore(vocab, target, shape); err != nil {
		return nil, err
	}
	t.grads = t.drafter.Weights.Like()
	for range cap(t.scratch) {
		t.scratch <- t.drafter.Weights.Like()
	}
	for range cap(t.buffers) {
		t.buffers <- dev.Alloc(run.MaxTokens(), t.width)
	}
	if t.lines, err = lineage.Open(w.Run.Ledger()); err != nil {
		return nil, err
	}
	if t.report, err = newReporter(w, run.Plan.Windows()); err != nil {
		return nil, err
	}
	t.evaluator = newEvaluator(w, t.began, t.report.evaluated)
	return t, nil
}

func (t *trainer) close() {
	t.views.Close()
	if t.lines != nil {
		t.lines.Close()
	}
	if t.report != nil {
		t.report.close()
	}
}

// restore brings weights, moments and totals back from the newest checkpoint that verifies, or starts afresh.
func (t *trainer) restore(vocab model.Vocabulary, target *hf.Target, shape hf.DrafterConfig) error {
	cfg := t.w.Config
	adam := model.AdamW{Beta1: cfg.Train.Beta1, Beta2: cfg.Train.Beta2, Eps: 1e-8, Decay: cfg.Train.Decay, Clip: cfg.Train.Clip}
	c, skipped, err := checkpoint.Latest(t.w.Run.Checkpoints())
	for _, why := range skipped {
		t.w.Log.Warn("checkpoint is not usable, going back to the one before", "err", why)
	}
	if errors.Is(err, checkpoint.ErrNone) {
		from, err := t.fresh(target, shape)
		if err != nil {
			return err
		}
		if t.drafter, err = model.NewDrafter(t.dev, shape, vocab, from); err != nil {
			return err
		}
		t.opt = model.NewOptimizer(t.dev, t.drafter.Weights, adam)
		t.state = checkpoint.State{Run: t.w.Run.Name(), Data: t.run.Data(), Seed: cfg.Seed, Config: cfg, Drafter: shape}
		return nil
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if diff := schema.Diff(c.Config, cfg); len(diff) > 0 {
		return fmt.Errorf("checkpoint %s was made with another configuration: %s", c.Dir, strings.Join(diff, "; "))
	}
	if c.Data != t.run.Data() {
		return fmt.Errorf("checkpoint %s was made on data %.12s, the run now has %.12s: restore the data files or start a new run", c.Dir, c.Data, t.run.Data())
	}
	tensors := c.Tensors()
	if t.drafter, err = model.NewDrafter(t.dev, shape, vocab, byName(tensors.Weights)); err != nil {
		return fmt.Errorf("checkpoint %s: %w", c.Dir, err)
	}
	t.opt = model.NewOptimizer(t.dev, t.drafter.Weights, adam)
	t.opt.Steps = int(c.Step)
	if err := errors.Join(t.opt.M.Load(byName(tensors.M)), t.opt.V.Load(byName(tensors.V))); err != nil {
		return fmt.Errorf("checkpoint %s: %w", c.Dir, err)
	}
	t.state = c.State
	t.state.Config = cfg
	t.w.Log.Info("resumed", "checkpoint", c.Dir, "window", c.Window)
	return nil
}

// fresh returns where a new drafter's weights come from.
func (t *trainer) fresh(target *hf.Target, shape hf.DrafterConfig) (model.Source, error) {
	init := t.w.Config.Draft.Init
	if dir, ok := strings.CutPrefix(init, "path:"); ok {
		d, err := hf.ReadDrafter(filepath.Clean(dir))
		if err != nil {
			return nil, fmt.Errorf("draft.init: %w", err)
		}
		return byName(d.Float32), nil
	}
	return worker.InitialWeights(init, t.w.Config.Seed, target, shape)
}

// byName adapts a source of whole tensors to one of shapes.
func byName(get hf.Source) model.Source {
	return func(s hf.Shape) ([]float32, error) { return get(s.Name) }
}

func openLine(gen, window uint32) lineage.Line {
	return lineage.Line{Gen: gen, Open: true, Window: window}
}
