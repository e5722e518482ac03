package model

import (
	"fmt"

	"penstock/kernels"
	"penstock/schema/hf"
)

// Step runs the drafter on one batch and adds the gradient of the loss's numerator to grads, a set like Weights; with nil
// it only evaluates. The caller divides by the denominators' sum once a window. Only trained slots reach the vocabulary. A batch
// of more than d.Slots is computed piece by piece.
func (d *Drafter) Step(b *Batch, loss Loss, grads *Params) (Result, error) {
	return d.StepBySections(b, loss, grads, nil)
}

// StepBySections is Step that calls done, unless it is nil, with the number of a section of grads as soon as all that adds to it
// is enqueued, for all in their order; or for none, where no slot of the last piece is trained.
func (d *Drafter) StepBySections(b *Batch, loss Loss, grads *Params, done func(section int)) (Result, error) {
	if err := b.check(d); err != nil {
		return Result{}, fmt.Errorf("drafter step: %w", err)
	}
	if err := loss.Check(); err != nil {
		return Result{}, fmt.Errorf("drafter step: %w", err)
	}
	pieces := b.pieces(d.Config.BlockSize, d.Slots)
	last := len(pieces) - 1
	of := func(piece int) func(int) {
		if piece < last {
			return nil
		}
		return done
	}
	r, err := d.step(&pieces[0], loss, grads, of(0))
	for i := 1; i <= last && err == nil; i++ {
		var one Result
		one, err = d.step(&pieces[i], loss, grads, of(i))
		den := r.Den
		if r.follow(one); loss.Kind == DPace { // 1 a batch
			r.Den = den
		}
	}
	if err != nil {
		return r, fmt.Errorf("drafter step: %w", err)
	}
	return r, nil
}

// step is StepBySections on one piece.
func (d *Drafter) step(b *Batch, loss Loss, grads *Params, done func(int)) (Result, error) {
	s := newSlots(b, d.Config.BlockSize)
	rows, labels := s.trained()
	r := Result{CE: make([]float32, len(s.weight)), Weight: s.weight, Hit: make([]uint8, len(s.weight))}
	if len(rows) == 0 {
		_, r.Den = loss.weights(s.weight, r.CE, d.Config.BlockSize)
		r.count(d.Config.BlockSize)
		return r, nil
	}
	d.arena.Reset()
	t := d.forward(b, s)
	h, err := d.head(t.out, rows, labels, loss, &r, grads != nil)
	if err != nil {
		return r, err
	}
	if grads != nil {
		d.backward(t, h, grads, done)
	}
	return r, d.dev.Sync()
}

// trace is a forward pass, kept for its backward.
type trace struct {
	ctx   contextActs
	block block
	acts  []blockActs
	out   kernels.Tensor // [N·B, H], before the final norm
}

func (d *Drafter) forward(b *Batch, s slots) trace {
	g := d.geo
	t := trace{ctx: d.newContext(b.Hidden, d.dev.Index(positions(b.Offsets))),
		block: block{blocks: s.blocks, pos: d.dev.Index(s.pos), size: d.Config.BlockSize}}
	anchors := make([]int32, len(b.Anchors))
	for i, a := range b.Anchors {
		anchors[i] = b.IDs[a]
	}
	x := d.arena.Half(len(s.pos), g.HiddenSize)
	d.dev.Gather(x, d.Embedding, d.dev.Index(d.blockIDs(anchors)))
	for i, l := range d.layers {
		rows := len(b.IDs)
		kv := contextKV{raw: d.arena.Half(rows, g.KVSize()), rstd: d.arena.Get(rows, g.KVHeads),
			k: d.arena.Half(rows, g.KVSize()), v: d.arena.Half(rows, g.KVSize())}
		d.contextKV(l, t.ctx, kv)
		var a blockActs
		x, a = d.layer(l, x, kv, t.block, d.Config.LayerWindow(i))
		t.acts = append(t.acts, a)
	}
	t.out = x
	return t
}

// headActs is the part behind the layers, on the trained rows only.
type headActs struct {
	rows        kernels.Index
	x, rstd, dh kernels.Tensor // gathered rows, their norm's r, the gradient of the norm's output
}

// head projects the trained rows, fills r, and leaves the gradient of the numerator in dh if wanted.
func (d *Drafter) head(out kernels.Tensor, rows, labels []int32, loss Loss, r *Result, wanted bool) (headActs, error) {
	n, hidden := len(rows), d.geo.HiddenSize
	h := headActs{rows: d.dev.Index(rows), x: d.arena.Half(n, hidden), rstd: d.arena.Get(n, 1)}
	d.dev.Gather(h.x, out, h.rows)
	y := d.normed(h.x, d.Weights.Tensor(hf.FinalNorm), h.rstd)

	ce, hit, weight := d.arena.Get(n, 1), d.arena.Get(n, 1), d.arena.Get(n, 1)
	factor := make([]float32, n)
	pick := func(all []float32) {
		for i, row := range rows {
			factor[i] = all[row]
		}
	}
	// DPace's factors follow from the losses, so its gradient is taken with factor 1 and scaled row by row.
	late := loss.Kind == DPace
	for i := range factor {
		factor[i] = 1
	}
	if !late {
		all, _ := loss.weights(r.Weight, nil, d.Config.BlockSize)
		pick(all)
	}
	if wanted {
		h.dh = d.arena.Half(n, hidden)
		d.dev.Upload(weight, factor)
	}
	d.dev.HeadLoss(ce, hit, h.dh, y, d.Head, weight, d.dev.Index(labels))
	ces, hits := make([]float32, n), make([]float32, n)
	d.dev.Download(ces, ce)
	d.dev.Download(hits, hit)
	if err := d.dev.Sync(); err != nil {
		return h, err
	}
	for i, row := range rows {
		r.CE[row] = ces[i]
		if hits[i] != 0 {
			r.Hit[row] = 1
		}
	}
	all, den := loss.weights(r.Weight, r.CE, d.Config.BlockSize)
	r.Den = den
	for i, w := range all {
		r.Num += float64(w) * float64(r.CE[i])
	}
	r.EntropyNum, r.EntropyDen = loss.entropy(r.Weight, r.CE, d.Config.BlockSize)
	if late && wanted {
		pick(all)
		d.dev.Upload(weight, factor)
		d.dev.ScaleRows(h.dh, weight)
	}
	r.count(d.Config.BlockSize)
	return h, nil
}

func (d *Drafter) backward(t trace, h headActs, grads *Params, done func(int)) {
	if done == nil {
		done = func(int) {}
	}
	hidden := d.geo.HiddenSize
	dx, dc := d.arena.ZeroHalf(t.out.Rows, hidden), d.arena.ZeroHalf(t.ctx.c.Rows, hidden)
	drows := d.arena.Half(h.x.Rows, hidden)
	d.dev.RMSNormBackward(drows, grads.Tensor(hf.FinalNorm), h.dh, h.x, d.Weights.Tensor(hf.FinalNorm), h.rstd, false)
	d.dev.Scatter(dx, drows, h.rows)
	into := d.layersOf(grads, grads)
	for i := len(d.layers) - 1; i >= 0; i-- {
		d.layerBackward(d.layers[i], into[i], t.acts[i], t.ctx, t.block, d.Config.LayerWindow(i), dx, dc)
		done(len(d.layers) - 1 - i)
	}
	d.contextBackward(grads, t.ctx, dc)
	done(len(d.layers))
}
