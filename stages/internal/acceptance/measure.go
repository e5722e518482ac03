package acceptance

import (
	"context"
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/stages/internal/model"
)

// Report is what decoding showed. AcceptLength is tokens emitted per verification by the target, the target's own
// included: 1.0 means no gain. PerPosition[k-1] is the share of rounds in which slots 1..k were all accepted.
type Report struct {
	AcceptLength float64   `json:"accept_length"`
	Rounds       int       `json:"rounds"`
	Tokens       int       `json:"tokens"`
	PerPosition  []float64 `json:"per_position"`
}

// Measure decodes every prompt. It stops with the context's error when ctx ends.
func Measure(ctx context.Context, d *model.Decoder, prompts [][]int32) (Report, error) {
	sum := model.NewAcceptance(d.Drafter.Config.BlockSize)
	for i, ids := range prompts {
		decoded, err := d.Decode(ctx, ids)
		if err != nil {
			return Report{}, fmt.Errorf("prompt %d: %w", i, err)
		}
		sum.Add(decoded)
	}
	return Report{AcceptLength: sum.Length(), Rounds: sum.Rounds, Tokens: sum.Tokens, PerPosition: sum.PerPosition()}, nil
}

// Options says what Directories measures.
type Options struct {
	Target, Drafter, Prompts string // paths
	Limit                    int    // prompts; 0: all
	MaxNew                   int    // tokens of an answer
}

// Directories measures a drafter directory against its target directory on a device.
func Directories(ctx context.Context, dev kernels.Device, o Options) (Report, error) {
	prompts, err := Encode(o.Target, o.Prompts, o.Limit)
	if err != nil {
		return Report{}, err
	}
	t, err := hf.OpenTarget(o.Target)
	if err != nil {
		return Report{}, err
	}
	defer t.Close()
	if len(t.EOS) == 0 {
		return Report{}, fmt.Errorf("target %s names no eos_token_id: nothing would end an answer", o.Target)
	}
	f, err := hf.ReadDrafter(o.Drafter)
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	if err := f.CheckTarget(t); err != nil {
		return Report{}, fmt.Errorf("drafter %s: %w", o.Drafter, err)
	}
	target, err := model.LoadTarget(dev, t, t.Layers)
	if err != nil {
		return Report{}, err
	}
	drafter, err := model.NewDrafter(dev, f.DrafterConfig, target.Vocabulary, model.Files(f))
	if err != nil {
		return Report{}, err
	}
	return Measure(ctx, NewDecoder(t, target, drafter, o.MaxNew), prompts)
}

// NewDecoder is a decoder that ends an answer where t's files say.
func NewDecoder(t *hf.Target, target *model.Target, drafter *model.Drafter, maxNew int) *model.Decoder {
	d := &model.Decoder{Target: target, Drafter: drafter, MaxNew: maxNew}
	for _, id := range t.EOS {
		d.EOS = append(d.EOS, int32(id))
	}
	return d
}
