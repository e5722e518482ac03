package worker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"penstock/broker"
	"penstock/broker/policy"
	"penstock/schema"
	"penstock/schema/store"
	"penstock/stages/internal/counter"
	"penstock/stages/internal/plan"
	"penstock/stages/internal/prepare"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

// RunPlan is what a run trains on: the store, and the plan that every process derives from it alike.
type RunPlan struct {
	Store *store.Store
	Plan  *plan.Plan
	path  string
	seed  uint64
	most  int // anchors of a document
	block int
	max   int
}

// OpenPlan opens the store at path and plans the run of cfg over it.
func OpenPlan(cfg schema.Config, path string) (*RunPlan, error) {
	s, err := store.Open(path)
	if err != nil {
		return nil, err
	}
	p, err := plan.New(s, &cfg)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	r := &RunPlan{Store: s, Plan: p, path: path, seed: cfg.Seed, most: cfg.Train.Anchors, block: cfg.Draft.BlockSize, max: cfg.Batch.Tokens}
	for i := range s.Len() {
		r.max = max(r.max, s.Length(i))
	}
	return r, nil
}

// Prepare tokenises the data of cfg, unless that was done before, and plans the run in dir over it. What fails would fail
// again.
func Prepare(ctx context.Context, cfg schema.Config, dir *rundir.Dir) (*RunPlan, prepare.Report, error) {
	out := cfg.Data.Store
	if out == "" {
		out = dir.Stores()
	}
	report, err := prepare.Prepare(ctx, prepare.OptionsFor(cfg, out))
	if err != nil {
		return nil, report, runtime.Permanent(fmt.Errorf("prepare data: %w", err))
	}
	path, err := filepath.Abs(report.Store)
	if err != nil {
		return nil, report, fmt.Errorf("store path: %w", err)
	}
	r, err := OpenPlan(cfg, path)
	return r, report, runtime.Permanent(err)
}

// AwaitPlan waits until the batch stage has announced the run's plan, and derives it.
func (w *Worker) AwaitPlan(ctx context.Context) (*RunPlan, error) {
	w.Status.Wait("the plan: the batch stage makes it")
	found := errors.New("found")
	var info schema.PlanInfo
	err := w.Conn.Board().Watch(ctx, KeyPlan, func(h broker.Hint) error {
		if p, ok := h.Record.(schema.PlanInfo); ok && p.Run == w.Run.Name() {
			info = p
			return found
		}
		return nil
	})
	if !errors.Is(err, found) {
		return nil, err
	}
	r, err := OpenPlan(w.Config, info.Store)
	if err != nil {
		return nil, runtime.Permanent(err)
	}
	if mine := r.Info(info.Run); !same(mine, info) {
		return nil, runtime.Permanent(fmt.Errorf("plan of %d windows and %d batches over data %.12s differs from the announced %d, %d, %.12s: do all processes have one configuration?",
			mine.Windows, mine.Batches, mine.Data, info.Windows, info.Batches, info.Data))
	}
	return r, nil
}

func same(a, b schema.PlanInfo) bool {
	return a.Data == b.Data && a.Windows == b.Windows && a.Batches == b.Batches
}

// Info is the plan as it is announced.
func (r *RunPlan) Info(run string) schema.PlanInfo {
	info := schema.PlanInfo{Run: run, Data: r.Data(), Store: r.path, Windows: uint32(r.Plan.Windows()), Batches: uint32(r.Plan.Batches())}
	for _, b := range r.Plan.Buckets() {
		info.Buckets = append(info.Buckets, uint32(b.Edge))
	}
	return info
}

// Data is the content hash of the store.
func (r *RunPlan) Data() string { return r.Store.Info().Name() }

// Path is where the store lies.
func (r *RunPlan) Path() string { return r.path }

// MaxTokens bounds the tokens of any batch.
func (r *RunPlan) MaxTokens() int { return r.max }

// Batch returns the planned batch that a record names, and an error if the record contradicts the plan.
func (r *RunPlan) Batch(b schema.Batch, documents, tokens uint32) (plan.BatchPlan, error) {
	p := r.Plan.Batch(int(b.Index))
	if !r.Has(b) || len(p.Docs) != int(documents) || p.Tokens != int(tokens) {
		return p, fmt.Errorf("batch %d of window %d, bucket %s, %d documents, %d tokens is not in the plan", b.Index, b.Window, b.Bucket, documents, tokens)
	}
	return p, nil
}

// Has reports whether the plan has such a batch.
func (r *RunPlan) Has(b schema.Batch) bool {
	p := r.Plan.Batch(int(b.Index))
	return len(p.Docs) > 0 && p.Window == int(b.Window) && p.Epoch == int(b.Epoch) && p.Bucket == b.Bucket
}

// Check refuses a hop that contradicts the plan or has rows of another width.
func (r *RunPlan) Check(h schema.Hop, width int) error {
	if int(h.Width) != width {
		return fmt.Errorf("rows are %d wide, want %d", h.Width, width)
	}
	_, err := r.Batch(h.Batch, h.Documents, h.Tokens)
	return err
}

// Work is what a batch asks of the devices. Its slots are an upper bound: a document may have fewer valid anchors.
func (r *RunPlan) Work(p plan.BatchPlan) (w policy.Work) {
	for _, d := range p.Docs {
		n := r.Store.Length(int(d))
		w.Add(n, min(r.most, n)*r.block)
	}
	return w
}

// Load reads a batch's documents.
func (r *RunPlan) Load(p plan.BatchPlan) plan.Packed { return plan.Load(r.Store, p) }

// Anchors draws the batch's anchors, as rows of the packed batch: of each document at most the configured number.
func (r *RunPlan) Anchors(p plan.BatchPlan, packed plan.Packed) []int32 {
	var rows []int32
	for i, key := range packed.Keys {
		at := packed.Offsets[i]
		valid := plan.Valid(packed.Mask[at:packed.Offsets[i+1]])
		for _, t := range plan.Anchors(r.seed, p.Epoch, key, valid, r.most) {
			rows = append(rows, at+t)
		}
	}
	return rows
}

// Noise fills noise [T, width] with what is to be added to a batch's features: uniform in ±size, drawn by (seed, epoch,
// document).
func (r *RunPlan) Noise(noise []float32, width int, p plan.BatchPlan, size float64) {
	packed := r.Load(p)
	var docs sync.WaitGroup
	for i, key := range packed.Keys {
		doc := noise[width*int(packed.Offsets[i]) : width*int(packed.Offsets[i+1])]
		docs.Go(func() {
			rnd := counter.New(r.seed, counter.Noise, uint64(p.Epoch), key)
			for j := range doc {
				doc[j] = float32(size * (2*rnd.Float64() - 1))
			}
		})
	}
	docs.Wait()
}

// The plan as the ledger's count wants it.

// Windows is the number of windows of the run.
func (r *RunPlan) Windows() int { return r.Plan.Windows() }

// Planned returns the batches of a window.
func (r *RunPlan) Planned(window uint32) []uint32 {
	var ids []uint32
	for _, p := range r.Plan.Window(int(window)) {
		ids = append(ids, uint32(p.Index))
	}
	return ids
}

// Members returns a batch's epoch and documents.
func (r *RunPlan) Members(batch uint32) (uint32, []int32) {
	p := r.Plan.Batch(int(batch))
	return uint32(p.Epoch), p.Docs
}

// Key returns a document's key.
func (r *RunPlan) Key(doc int32) uint64 { return r.Store.Key(int(doc)) }
