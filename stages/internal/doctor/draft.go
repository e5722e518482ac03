package doctor

import (
	"fmt"

	"penstock/schema/hf"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/geometry"
)

// What a rank holds beside weights and moments.
const (
	onTheirWay = 3       // gradients between the device and the sum, unless each batch has a part of its own
	handedOver = 3       // weights and both moments, laid out for a rank that joins
	noteBytes  = 4 << 10 // behind a set that is shared
	page       = 4 << 10 // of which shared memory is whole
)

// draft adds what a rank needs, in bytes: gradients and moments are float32 wherever they are.
func (p *planner) draft() {
	cfg, g, n := p.cfg, p.t.Geometry, p.cfg.Draft.Ranks
	tokens, h := int64(cfg.Batch.Tokens), int64(g.HiddenSize)
	kv, q, inter := int64(g.KVSize()), int64(g.QSize()), int64(g.IntermediateSize)
	d := hf.NewDrafterConfig(p.t, cfg.Draft.Layers, cfg.Draft.BlockSize, cfg.Draft.Window, 0, cfg.Target.Taps)
	parameters := geometry.Parameters(d.Shapes())
	perParameter := int64(12) // weights and two moments
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
	// A document of half the longest length is taken as usual; no more blocks than half the tokens can be supervised.
	blocks := min(tokens/2, int64(cfg.Train.Anchors)*max(1, 2*tokens/int64(cfg.Data.MaxLength)))
	rows := blocks * int64(cfg.Draft.BlockSize)
	p.add("draft", n, "activations", int64(cfg.Draft.Layers)*(rows*(8*h+2*q+2*kv+3*inter)+tokens*2*kv)*p.element, p.gpu)
	p.evaluation(parameters)
}

// gradients counts a rank's sets of gradients: on its device, and in the memory that it shares with the others, with what is
// handed over there. The window's sum has one part, or in deterministic order one for each batch; several parts are added up
// into a set of their own.
func (p *planner) gradients() (own, exchanged int) {
	parts := 1
	if p.cfg.Deterministic {
		parts = p.cfg.Window.Batches
	} else {
		own = onTheirWay
	}
	alone := p.cfg.Draft.Ranks == 1
	if p.cfg.Deterministic || !alone {
		own++ // the sum
	}
	if alone {
		return own + parts, 0
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
