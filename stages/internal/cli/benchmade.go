package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"penstock/schema"
	"penstock/stages/internal/bench"
	"penstock/stages/internal/geometry"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/scenario"
	"penstock/stages/internal/tokenizer"
)

// benchOptions say how much of a run is measured, and of what: the configured target and data, or made-up ones.
type benchOptions struct {
	steps, warm       int
	geometry, lengths string // made up unless geometry is empty
	batch             int    // documents of a batch, on average
	cache             string // folder in which the made target stays; empty: nowhere
	alone             string // file with the speeds of target and drafter alone; empty: none
}

// oneBatch makes a step of a batch, unless it is set otherwise.
const oneBatch = "window.batches=1"

// behind is how many steps are made behind the measured ones, whose targets have nothing more to run ahead for.
func (o benchOptions) behind(cfg schema.Config) int { return cfg.Window.Lookahead + 1 }

// check refuses what nothing can be measured with, before anything is made.
func (o benchOptions) check(f runtime.Flags) error {
	switch {
	case o.steps < 1:
		return fmt.Errorf("--steps %d: at least one step is measured", o.steps)
	case o.warm < 0:
		return fmt.Errorf("--warm-up %d: a count of steps is not negative", o.warm)
	case o.warm >= o.steps:
		return fmt.Errorf("--warm-up %d: --steps counts the measured steps behind the warm-up, and %d are no more than that: ask for more, or for a shorter warm-up",
			o.warm, o.steps)
	case f.Run != "":
		return fmt.Errorf("--run %s: bench makes a run directory of its own and removes it: leave --run out", f.Run)
	case o.geometry == "" && o.cache != "":
		return fmt.Errorf("--target-cache keeps a made target: name its size with --geometry")
	case o.alone != "":
		return takeAlone(&scenario.Measured{}, o.alone)
	}
	return nil
}

// made makes a target and data if a size is named. It returns the settings that name them, and what removes them.
func (o benchOptions) made(f runtime.Flags) (sets []string, remove func(), err error) {
	remove = func() {}
	if o.geometry == "" {
		return nil, remove, nil
	}
	b := bench.Options{Batch: o.batch}
	if b.Model, err = geometry.Lookup(o.geometry); err != nil {
		return nil, remove, err
	}
	if b.Lengths, err = bench.ParseLengths(o.lengths); err != nil {
		return nil, remove, err
	}
	if err := b.CheckBatch(); err != nil {
		return nil, remove, err
	}
	f.Sets = append([]string{oneBatch}, f.Sets...)
	cfg, err := f.Load()
	if err != nil {
		return nil, remove, err
	}
	tmp, err := os.MkdirTemp("", "penstock-made-")
	if err != nil {
		return nil, remove, fmt.Errorf("make a target: %w", err)
	}
	remove = func() { os.RemoveAll(tmp) }
	target, data := filepath.Join(tmp, "target"), filepath.Join(tmp, "data.jsonl")
	if o.cache != "" {
		target = filepath.Join(o.cache, b.Model.Name)
	}
	if err := bench.MakeTarget(target, b.Model, cfg.Target.Dir); err != nil {
		remove()
		return nil, func() {}, err
	}
	tok, err := tokenizer.Load(filepath.Join(target, "tokenizer.json"))
	mean := 0
	if err == nil { // batches need not be full
		mean, err = bench.MakeData(data, b, 2*o.batch*cfg.Window.Batches*(o.warm+o.steps), min(b.Model.Target.VocabSize, tok.VocabSize()))
	}
	if err != nil {
		remove()
		return nil, func() {}, err
	}
	taps := strings.Trim(strings.ReplaceAll(fmt.Sprint(b.Model.Taps), " ", ","), "[]")
	return []string{
		"target.dir=" + target, "target.taps=" + taps, "target.features=", "data.files=" + data,
		"data.max_length=" + strconv.Itoa(b.Lengths.Longest()), "data.held_out=0",
		"batch.tokens=" + strconv.Itoa(max(mean*o.batch, b.Lengths.Longest())), oneBatch,
		"draft.block_size=" + strconv.Itoa(b.Model.Block), "draft.layers=" + strconv.Itoa(b.Model.Layers), "draft.init=target",
		"draft.mask_token_id=" + strconv.Itoa(b.Model.Target.VocabSize-1), "train.anchors=512", "train.loss=dflash",
	}, remove, nil
}

// since makes r a report of so many windows behind the first warm ones.
func (r *runReport) since(dir *rundir.Dir, warm, steps int) error {
	b, err := os.ReadFile(dir.Metrics())
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	var tokens, slots, began, ended float64
	windows := 0
	for line := range bytes.Lines(b) {
		var m struct{ Tokens, Slots, Seconds float64 }
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("read the metrics: %w", err)
		}
		switch windows++; {
		case windows <= warm:
			began = m.Seconds
		case windows <= warm+steps:
			tokens, slots, ended = tokens+m.Tokens, slots+m.Slots, m.Seconds
		}
	}
	if ended <= began {
		return fmt.Errorf("there is nothing to measure behind %d of %d windows", warm, windows)
	}
	counted := min(windows-warm, steps)
	r.Steps, r.Seconds = uint32(counted), ended-began
	r.Batches = r.Batches * counted / windows
	r.BatchesS, r.TokensS, r.SlotsS = float64(r.Batches)/r.Seconds, tokens/r.Seconds, slots/r.Seconds
	return nil
}
