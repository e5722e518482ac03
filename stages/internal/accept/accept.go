// Package accept measures a drafter by what it is for: greedy speculative decoding of held-out prompts.
package accept

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/chat"
	"penstock/stages/internal/model"
	"penstock/stages/internal/tokenizer"
)

// Options say what is decoded, and where.
type Options struct {
	Device  string
	Target  string // model directory
	Prompts string // file of [{"id", "prompt"}]
	Limit   int    // prompts, from the front; 0 for all
	MaxNew  int    // tokens a prompt
	Workers int    // prompts at a time; 0 for what the device is good for
}

// Report is the measurement over all prompts.
type Report struct {
	AcceptLength float64   `json:"accept_length"` // tokens a round, the target's own included: 1.0 means no gain
	Rounds       int       `json:"rounds"`
	Tokens       int       `json:"tokens"`       // emitted in rounds
	PerPosition  []float64 `json:"per_position"` // [B-1] share of rounds in which slots 1..k were all accepted
	Prompts      int       `json:"prompts"`
}

// Measure decodes the prompts with a drafter of the given shape and weights. The result does not depend on Workers.
func Measure(ctx context.Context, o Options, weights model.Source, shape hf.DrafterConfig) (Report, error) {
	target, err := hf.OpenTarget(o.Target)
	if err != nil {
		return Report{}, err
	}
	defer target.Close()
	if err := shape.CheckTarget(target); err != nil {
		return Report{}, err
	}
	prompts, err := encode(o, true)
	if err != nil {
		return Report{}, err
	}
	workers := o.Workers
	if workers == 0 {
		workers = backend.Decoders(o.Device)
	}
	sum := model.NewAcceptance(shape.BlockSize)
	var mu sync.Mutex
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range min(workers, len(prompts)) {
		g.Go(func() error {
			dev, err := backend.OpenThreads(o.Device, 1)
			if err != nil {
				return err
			}
			defer dev.Close()
			d, err := decoder(dev, o, target, weights, shape)
			if err != nil {
				return err
			}
			for {
				i := int(next.Add(1)) - 1
				if i >= len(prompts) {
					return nil
				}
				out, err := d.Decode(ctx, prompts[i].ids)
				if err != nil {
					return fmt.Errorf("prompt %q: %w", prompts[i].id, err)
				}
				mu.Lock()
				sum.Add(out)
				mu.Unlock()
			}
		})
	}
	if err := g.Wait(); err != nil {
		return Report{}, err
	}
	return Report{AcceptLength: sum.Length(), Rounds: sum.Rounds, Tokens: sum.Tokens, PerPosition: sum.PerPosition(), Prompts: sum.Prompts}, nil
}

// decoder loads target and drafter on a device.
func decoder(dev kernels.Device, o Options, target *hf.Target, weights model.Source, shape hf.DrafterConfig) (*model.Decoder, error) {
	t, err := model.LoadTarget(dev, target, target.Layers)
	if err != nil {
		return nil, fmt.Errorf("load target %s: %w", o.Target, err)
	}
	d, err := model.NewDrafter(dev, shape, t.Vocabulary, weights)
	if err != nil {
		return nil, err
	}
	eos := make([]int32, len(target.EOS))
	for i, id := range target.EOS {
		eos[i] = int32(id)
	}
	return &model.Decoder{Target: t, Drafter: d, EOS: eos, MaxNew: o.MaxNew}, nil
}

// prompt is one user turn as token ids.
type prompt struct {
	id  string
	ids []int32
}

// encode reads the prompts as the model does, ended by the generation prompt if that is asked for.
func encode(o Options, generation bool) ([]prompt, error) {
	list, err := readPrompts(o.Prompts)
	if err != nil {
		return nil, err
	}
	if o.Limit > 0 && o.Limit < len(list) {
		list = list[:o.Limit]
	}
	tok, err := tokenizer.Load(filepath.Join(o.Target, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	template, err := chat.Load(o.Target, tok)
	if err != nil {
		return nil, err
	}
	out := make([]prompt, len(list))
	for i, p := range list {
		text, err := template.Render(chat.Talk(chat.Message{Role: "user", Content: p.Prompt}), generation)
		if err != nil {
			return nil, fmt.Errorf("prompt %q: %w", p.ID, err)
		}
		out[i] = prompt{p.ID, tok.Encode(text)}
	}
	return out, nil
}
