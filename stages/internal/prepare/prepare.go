// Package prepare turns chats in JSON lines and Parquet files into a token store: rendered by the model's chat template,
// tokenised, with a loss mask on what the assistant wrote.
//
// Rows that cannot be trained on are counted by reason and listed in a reject file; the rest goes on. Repeated documents
// are left out, held-out ones too. The store is named by everything that decides its content, so that the same data is
// prepared once; a preparation that was interrupted goes on.
package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"penstock/schema"
	"penstock/schema/store"
)

// Options say what to prepare.
type Options struct {
	Files     []string // data files, folders and patterns (see Expand), in this order
	ModelDir  string   // tokenizer.json and the chat template
	MaxLength int      // tokens; longer documents are cut
	Buckets   string   // as in data.buckets, for the report; empty for auto:4
	OutDir    string   // made if it is not there
	Workers   int      // 0: one a core
	Turns     string   // as in data.turns
	Thinking  string   // as in data.thinking
	HeldOut   float64  // share of the documents that is held out

	partChunks int // for tests
}

// OptionsFor are the options of a run's configuration, with the store in outDir.
func OptionsFor(c schema.Config, outDir string) Options {
	d := c.Data
	return Options{Files: d.Files, ModelDir: c.Target.Dir, MaxLength: d.MaxLength, Buckets: d.Buckets, OutDir: outDir,
		Turns: d.Turns, Thinking: d.Thinking, HeldOut: d.HeldOut}
}

// Prepare writes the store of o, or finds it written and sound, and reports on it. Nothing is left half-written.
func Prepare(ctx context.Context, o Options) (Report, error) {
	start := time.Now()
	r, err := prepare(ctx, o)
	if err != nil {
		return Report{}, err
	}
	r.Seconds = time.Since(start).Seconds()
	return r, nil
}

func prepare(ctx context.Context, o Options) (Report, error) {
	if err := o.check(); err != nil {
		return Report{}, err
	}
	src, err := openSource(ctx, o)
	if err != nil {
		return Report{}, err
	}
	if err := os.MkdirAll(o.OutDir, 0o755); err != nil {
		return Report{}, fmt.Errorf("make the folder of stores: %w", err)
	}
	to := placeOf(o.OutDir, src.info)
	r, err := to.reuse(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrDamaged) {
		r, err = build(ctx, o, src, to)
	}
	if err != nil {
		return Report{}, err
	}
	if err := r.describe(o); err != nil {
		return Report{}, err
	}
	return r, r.write(to.report)
}

func (o Options) check() error {
	var problems []error
	if len(o.Files) == 0 {
		problems = append(problems, errors.New("there are no data files; name some in data.files"))
	}
	if o.MaxLength < 2 {
		problems = append(problems, fmt.Errorf("the maximum length is %d tokens, want at least 2", o.MaxLength))
	}
	if !(o.HeldOut >= 0 && o.HeldOut < 1) {
		problems = append(problems, fmt.Errorf("the held-out share is %g, want at least 0 and below 1", o.HeldOut))
	}
	return errors.Join(problems...)
}

// place is where one store, its report and its reject file lie.
type place struct{ store, report, rejects, prompts, parts string }

func placeOf(dir string, info store.Info) place {
	base := filepath.Join(dir, info.Name())
	return place{base + ".store", base + ".report.json", base + ".rejects.jsonl", base + ".heldout.json", base + ".parts"}
}

// reuse returns the report of a store that was prepared before. The error is fs.ErrNotExist or store.ErrDamaged where it
// is to be prepared again.
func (p place) reuse(ctx context.Context) (Report, error) {
	s, err := store.Open(p.store)
	if err != nil {
		return Report{}, err
	}
	defer s.Close()
	if err := s.Verify(ctx); err != nil {
		return Report{}, err
	}
	r, err := readReport(p.report)
	if err != nil {
		return Report{}, err
	}
	r.Store, r.Reused = p.store, true
	if r.Rejected > 0 {
		r.RejectFile = p.rejects
	}
	if r.PromptFile != "" {
		r.PromptFile = p.prompts
	}
	return r, nil
}
