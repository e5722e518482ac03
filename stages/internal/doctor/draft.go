package doctor

import (
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/model"
)

// What a rank holds beside weights and moments.
const (
	onTheirWay = 3       // gradients between the device and the sum where several ranks add up, unless each batch has a part of its own
	handedOver = 3       // weights and both moments, laid out for a rank that joins
	noteBytes  = 4 << 10 // behind a set that is shared
	page       = 4 << 10 // of which shared memory is whole
)

// draft adds what a rank needs, in bytes: gradients and moments are float32 wherever they are.
func (p *planner) draft() {
	cfg, n := p.cfg, p.cfg.Draft.Ranks
	d := hf.NewDrafterConfig(p.t, cfg.Draft.Layers, cfg.Draft.BlockSize, cfg.Draft.Window, 0, cfg.Target.Taps)
	parameters := int64(model.SetSize(d.Shapes())) // of a set, with the gaps in it
	perParameter := int64(12)                      // weights and two moments
	if p.element == 2 {
		perParameter = 14 // and weights in bf16
	}
	p.add("draft", n, "process", goBase, false)
	p.context("draft", n, products)
	p.add("draft", n, "weights and moments", parameters*perParameter, p.gpu)
	own, exchanged := p.gradients()
	p.add("draft", n, fmt.Sprintf("%d gradients", own), int64(own)*parameters*4, p.gpu)
	if exchanged > 0 {
		p.add("draft", n, fmt.Sprintf("exchange, %d sets", exchanged), int64(exchanged)*((4*parameters+noteBytes+page-1)/page*page), false)
	}
	p.landing("draft", n)
	p.add("draft", n, "embedding and head", p.vocabulary*p.element, p.gpu)
	p.step(d)
	p.evaluation(parameters)
}

// step adds what the largest batch takes, with everything supervised.
func (p *planner) step(d hf.DrafterConfig) {
	var activations, space int64
	for _, s := range p.shapes {
		bytes, slots, trained, err := model.StepNeed(p.half(), d, p.cfg.Train.Slots, s)
		if err != nil {
			return // what is wrong with the configuration the checks of it say
		}
		activations, space = max(activations, bytes), max(space, backend.Workspace(p.half(), slots, d.Heads, trained, d.VocabSize))
	}
	p.add("draft", p.cfg.Draft.Ranks, "activations", activations, p.gpu)
	if p.gpu {
		p.add("draft", p.cfg.Draft.Ranks, "work space", space, true)
	}
}

// typical is the batch that is planned for as long as none is known: documents of half the longest length, each with anchors in
// half its tokens at most.
func (p *planner) typical() (s model.Shape) {
	n := max(1, 2*p.cfg.Batch.Tokens/p.cfg.Data.MaxLength)
	for i := range n {
		s.Lengths = append(s.Lengths, p.cfg.Batch.Tokens*(i+1)/n-p.cfg.Batch.Tokens*i/n)
		s.Anchors = append(s.Anchors, min(p.cfg.Train.Anchors, s.Lengths[0]/2))
	}
	return s
}

// half is the type in which the run's device keeps activations.
func (p *planner) half() kernels.Type {
	if p.element == 2 {
		return kernels.BFloat16
	}
	return kernels.Float32
}

// gradients counts a rank's sets of gradients: on its device, and in the memory that it shares with the others, with what is
// handed over there. The window's sum has one part, or in deterministic order one for each batch; several parts are added up
// into a set of their own. A GPU of several ranks has its parts in its own memory too, and room for one that comes through the
// host's.
func (p *planner) gradients() (own, exchanged int) {
	parts := 1
	alone := p.cfg.Draft.Ranks == 1
	switch {
	case p.cfg.Deterministic:
		parts = p.cfg.Window.Batches
	case alone: // it sums without waiting
		own = 1
	default:
		own = onTheirWay
	}
	if p.cfg.Deterministic || !alone {
		own++ // the sum
	}
	if alone {
		return own + parts, 0
	}
	if p.gpu {
		own += parts + 1
	}
	return own, parts + handedOver
}

// evaluation adds the decoders of the rank that leads, each with a whole target and a drafter on the run's device, and the copy of
// the weights that is evaluated.
func (p *planner) evaluation(parameters int64) {
	if p.cfg.Eval.Prompts == "" {
		return
	}
	decoders := int64(min(backend.Decoders(p.cfg.Device), p.cfg.Eval.Limit))
	whole := layers(p.t, p.t.Layers) + p.vocabulary + parameters
	p.add("draft", 1, fmt.Sprintf("evaluation, %d decoders", decoders), decoders*whole*p.element, p.gpu)
	p.add("draft", 1, "weights to evaluate", 4*parameters, false)
}
