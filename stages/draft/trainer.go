package draft

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/kernels"
	"penstock/kernels/mem"
	"penstock/schema"
	"penstock/schema/checkpoint"
	"penstock/schema/hf"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/lineage"
	"penstock/stages/internal/model"
	"penstock/stages/internal/reduce"
	"penstock/stages/internal/worker"
)

// scratches is how many gradients may be on their way from the device into the sum, where that waits for the ledger.
const scratches = 3

// trainer is the state of the rank from its joining on.
type trainer struct {
	w     *worker.Worker
	run   *worker.RunPlan
	dev   kernels.Device
	width int
	gen   uint32
	me    policy.Member

	drafter  *model.Drafter
	opt      *model.Optimizer
	loss     model.Loss
	schedule model.Schedule
	state    checkpoint.State
	unsaved  bool // a checkpoint was due and is not written yet
	failed   bool // the last attempt to write one did
	savedAt  time.Time
	saving   time.Duration // that the save took which ended then; 0 after one that failed
	report   *reporter
	began    time.Time
	turn     turn

	group  reduce.Group
	shared *reduce.Shared  // the group, if other ranks may join
	early  reduce.Early    // the group, if its sums may begin early
	parts  []*model.Params // of the open window's sum: one, or in deterministic order one a batch
	total  *model.Params   // their sum over all ranks; nil if that is parts[0]
	wishes *wishes
	lead   *lead  // nil if another rank leads
	past   []past // while another rank leads

	views     *worker.Views
	park      *worker.Park
	settle    *worker.Settler
	evaluator *evaluator
	traces    *traces
	costs     *worker.Costs
	hops      *broker.Source[schema.Hop] // of the generation
	deference *deference                 // to the other ranks
	handed    chan struct{}              // a signal that a hop was handed back, or thrown away
	flight    flight
	ready     chan item          // claimed
	scratch   chan *model.Params // free scratch gradients; deterministic order needs none
	recorded  chan scratch       // computed, and the ledger knows
	ahead     []item             // claimed, of a window that is not open yet
	behind    *behind            // the window before, until the ledger has its commit: of a rank alone
	news      chan news          // what the ledger is to be told by a rank alone, in its order
	committed chan struct{}      // the ledger has the commit of the window behind
}

// newTrainer allocates everything that training needs; weights come when it enters the group.
func newTrainer(w *worker.Worker, run *worker.RunPlan, dev kernels.Device, incarnation uint64) (*trainer, error) {
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
	t := &trainer{w: w, run: run, dev: dev, me: policy.Member{Rank: w.Instance, Incarnation: incarnation},
		wishes: newWishes(), deference: newDeference(), width: len(shape.Taps) * target.HiddenSize, began: time.Now(),
		loss:     model.Loss{Kind: model.LossKind(cfg.Train.Loss), Gamma: cfg.Train.Gamma, Alpha: cfg.Train.Alpha},
		schedule: worker.Schedule(cfg, run.Plan.Windows()),
		views:    w.OpenViews(dev),
		park:     worker.NewPark(w.Keeper),
		settle:   worker.NewSettler(),
		traces:   newTraces(w),
		costs:    worker.DraftCosts(shape),
		handed:   make(chan struct{}, 1),
		ready:    make(chan item, intakes),
		scratch:  make(chan *model.Params, scratches),
		recorded: make(chan scratch, scratches),

		news:      make(chan news, 2*(cfg.Window.Batches+1)), // of the window behind and the open one: the device never waits
		committed: make(chan struct{}, 1),
	}
	vocab, err := model.LoadVocabulary(dev, target)
	if err != nil {
		return nil, fmt.Errorf("load vocabulary of %s: %w", cfg.Target.Dir, err)
	}
	if t.drafter, err = model.NewDrafter(dev, shape, vocab, zeros); err != nil {
		return nil, err
	}
	t.drafter.Slots = cfg.Train.Slots
	if backend.IsGPU(w.Device) { // while the memory of gradients and moments is still free
		if err := t.drafter.Rehearse(run.Shapes()); err != nil {
			return nil, err
		}
	}
	t.opt = model.NewOptimizer(dev, t.drafter.Weights, model.AdamW{
		Beta1: cfg.Train.Beta1, Beta2: cfg.Train.Beta2, Eps: 1e-8, Decay: cfg.Train.Decay, Clip: cfg.Train.Clip})
	t.state = checkpoint.State{Run: w.Run.Name(), Data: run.Data(), Seed: cfg.Seed, Config: cfg, Drafter: shape}
	if err := t.openGroup(); err != nil {
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
	if t.group != nil {
		t.group.Close()
	}
	t.dropLead()
	if t.report != nil {
		t.report.close()
	}
}

// openGroup allocates the parts that this rank sums into, where the other ranks can read them if there are any.
func (t *trainer) openGroup() error {
	cfg := t.w.Config
	n, weights := 1, t.drafter.Weights
	if cfg.Deterministic {
		n = cfg.Window.Batches
	} else {
		scratch := scratches
		if cfg.Draft.Ranks == 1 {
			scratch = 1
		}
		for range scratch {
			t.scratch <- weights.Like()
		}
	}
	if cfg.Draft.Ranks == 1 {
		t.group = reduce.Alone(t.dev, n, weights.Flat.Len())
	} else {
		var err error
		if t.shared, err = reduce.Share(t.dev, t.me, t.w.Run.Sockets(), n, weights.Flat.Len(), t.find); err != nil {
			return err
		}
		t.group = t.collected(n)
		if cfg.Draft.Reduce == "auto" {
			t.early, _ = t.group.(reduce.Early)
		}
		if err := t.w.KeepJournal(3*cfg.Window.Batches, t.me.Incarnation); err != nil { // roots of the sum, and of those just committed
			return err
		}
	}
	for i := range n {
		t.parts = append(t.parts, weights.Over(t.group.Part(i)))
	}
	if cfg.Deterministic || t.shared != nil {
		t.total = weights.Like()
	}
	return nil
}

// collected is the group of ranks whose devices add up themselves, or the shared one where they cannot or must not.
func (t *trainer) collected(parts int) reduce.Group {
	lib, ok := t.dev.(kernels.Collective)
	if !ok || parts > 1 || t.w.Config.Draft.Reduce == "host" { // several parts are added in their order
		return t.shared
	}
	peer, err := lib.Peer()
	if err != nil {
		t.w.Log.Info("ranks add up through host memory", "because", err)
		return t.shared
	}
	return reduce.Collect(t.shared, lib, peer, t.w.Log)
}

// find looks up how to open another rank's slab.
func (t *trainer) find(ctx context.Context, m policy.Member) (schema.PoolInfo, error) {
	info, err := t.w.Announced(ctx, m.Rank, m.Incarnation)
	if errors.Is(err, worker.ErrGone) {
		err = mem.ErrStale
	}
	return info, err
}

// restore brings weights, moments and totals back from the newest checkpoint that verifies, or starts afresh.
func (t *trainer) restore() error {
	cfg := t.w.Config
	c, skipped, err := checkpoint.Latest(t.w.Run.Checkpoints())
	for _, why := range skipped {
		t.w.Log.Warn("checkpoint is not usable, going back to the one before", "err", why)
	}
	if errors.Is(err, checkpoint.ErrNone) {
		return t.initialise()
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
	err = errors.Join(t.drafter.Weights.LoadFile(c.Weights), t.opt.M.LoadFile(c.M), t.opt.V.LoadFile(c.V))
	if err != nil {
		return fmt.Errorf("checkpoint %s: %w", c.Dir, err)
	}
	t.opt.Steps = int(c.Step)
	t.state, t.began = c.State, time.Now()
	t.state.Config = cfg
	t.report.recall(recent{c.Losses, c.CrossEntropies})
	t.w.Log.Info("resumed", "checkpoint", c.Dir, "window", c.Window)
	return nil
}

// initialise fills the weights of a new drafter.
func (t *trainer) initialise() error {
	cfg := t.w.Config
	if dir, ok := strings.CutPrefix(cfg.Draft.Init, "path:"); ok {
		d, err := hf.ReadDrafter(filepath.Clean(dir))
		if err != nil {
			return fmt.Errorf("draft.init: %w", err)
		}
		return errors.Join(t.drafter.Weights.LoadFile(d), d.Close())
	}
	target, err := hf.OpenTarget(cfg.Target.Dir)
	if err != nil {
		return err
	}
	defer target.Close()
	from, err := worker.InitialWeights(cfg.Draft.Init, cfg.Seed, target, t.drafter.Config)
	if err != nil {
		return err
	}
	return t.drafter.Weights.Load(from)
}

// zeros is where weights come from that are replaced later.
func zeros(s hf.Shape) ([]float32, error) {
	n := 1
	for _, d := range s.Dims {
		n *= d
	}
	return make([]float32, n), nil
}

func openLine(gen, window uint32) lineage.Line {
	return lineage.Line{Gen: gen, Open: true, Window: window}
}
