// Package plan lays out a run before it starts: which documents make a batch, which batches make an optimizer step.
//
// The plan is a pure function of the documents' lengths and the configuration. Each epoch, the documents of each length
// bucket are shuffled and filled into batches, and the batches are dealt to windows so that every window, and every prefix
// of windows, is off each bucket's proportional share by less than one batch. Windows and batches are numbered from 0 over
// all epochs.
package plan

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"sync"

	"penstock/schema"
)

// Lengths are the documents to plan for: a token store, or anything with lengths.
type Lengths interface {
	Len() int
	Length(i int) int // tokens of document i
}

// BatchPlan is one planned batch.
type BatchPlan struct {
	Index  int // in plan order, over the run
	Epoch  int
	Window int     // the optimizer step that contains it
	Bucket string  // subject token, b<upper edge>
	Docs   []int32 // store's document numbers, in packing order; not to be changed
	Tokens int
}

// Plan is the plan of one run. It is safe for concurrent use.
type Plan struct {
	docs    Lengths
	seed    uint64
	tokens  int // of a batch
	size    int // batches of a window
	buckets []Bucket
	epochs  []epoch
	windows int
	batches int

	mu     sync.Mutex
	recent [2]*contents // of the epochs asked for last
}

// epoch is how one epoch's batches are dealt to its windows.
type epoch struct {
	window int     // number of its first window
	batch  int     // number of its first batch
	before [][]int // [window of the epoch][bucket]: batches of the bucket in earlier windows; one row more than windows
}

// New plans a run over docs by the seed, data.buckets, data.max_length, batch.tokens, window.batches, train.epochs and
// train.max_steps of c.
func New(docs Lengths, c *schema.Config) (*Plan, error) {
	for _, v := range []struct {
		name  string
		value int
	}{{"batch.tokens", c.Batch.Tokens}, {"window.batches", c.Window.Batches}, {"train.epochs", c.Train.Epochs}} {
		if v.value < 1 {
			return nil, fmt.Errorf("plan the run: %s is %d, want at least 1", v.name, v.value)
		}
	}
	if docs.Len() == 0 {
		return nil, errors.New("plan the run: there are no documents to train on")
	}
	p := &Plan{docs: docs, seed: c.Seed, tokens: c.Batch.Tokens, size: c.Window.Batches}
	var err error
	if p.buckets, err = newBuckets(docs, c.Data.Buckets, c.Data.MaxLength); err != nil {
		return nil, fmt.Errorf("plan the run: %w", err)
	}
	limit := math.MaxInt32
	if c.Train.MaxSteps > 0 {
		limit = c.Train.MaxSteps
	}
	for e := 0; e < c.Train.Epochs && p.windows < limit; e++ {
		counts := p.contents(e).counts()
		before := deal(counts, p.size)
		p.epochs = append(p.epochs, epoch{p.windows, p.batches, before})
		p.windows += len(before) - 1
		p.batches += sum(counts)
	}
	if p.batches > math.MaxInt32 {
		return nil, fmt.Errorf("plan the run: %d batches are more than a run can number; use larger batch.tokens or fewer epochs", p.batches)
	}
	if p.windows > limit {
		last := p.epochs[len(p.epochs)-1]
		p.windows = limit
		p.batches = last.batch + sum(last.before[limit-last.window])
	}
	for _, e := range p.epochs {
		for b, n := range e.before[min(len(e.before)-1, p.windows-e.window)] {
			p.buckets[b].Batches += n
		}
	}
	return p, nil
}

// Windows is the number of optimizer steps of the run.
func (p *Plan) Windows() int { return p.windows }

// Batches is the number of batches of the run.
func (p *Plan) Batches() int { return p.batches }

// Epochs is the number of epochs that the run enters.
func (p *Plan) Epochs() int { return len(p.epochs) }

// Start is the number of the first window of an epoch; epochs past the last start at Windows.
func (p *Plan) Start(epoch int) int {
	if epoch >= len(p.epochs) {
		return p.windows
	}
	return p.epochs[max(epoch, 0)].window
}

// Window returns the batches of window w in plan order: the longest documents first. Outside the run there are none.
func (p *Plan) Window(w int) []BatchPlan {
	if w < 0 || w >= p.windows {
		return nil
	}
	n := sort.Search(len(p.epochs), func(i int) bool { return p.epochs[i].window > w }) - 1
	e := p.epochs[n]
	before, after := e.before[w-e.window], e.before[w-e.window+1]
	c := p.contents(n)
	index := e.batch + sum(before)
	list := make([]BatchPlan, 0, p.size)
	for b := len(p.buckets) - 1; b >= 0; b-- {
		for k := before[b]; k < after[b]; k++ {
			docs, tokens := c.batch(b, k)
			list = append(list, BatchPlan{index, n, w, p.buckets[b].Name, docs, tokens})
			index++
		}
	}
	return list
}

// Batch returns batch i. Outside the run it is empty.
func (p *Plan) Batch(i int) BatchPlan {
	if i < 0 || i >= p.batches {
		return BatchPlan{}
	}
	e := p.epochs[sort.Search(len(p.epochs), func(n int) bool { return p.epochs[n].batch > i })-1]
	inside := i - e.batch // every window before it is full
	return p.Window(e.window + inside/p.size)[inside%p.size]
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
