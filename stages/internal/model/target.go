package model

import (
	"fmt"
	"slices"

	"penstock/kernels"
	"penstock/schema/hf"
)

// mlpRows bounds the scratch memory of the feed-forward part: longer inputs go through in pieces.
const mlpRows = 8192

// Vocabulary is the target's embedding and head, both [V, H]; they may be one tensor. The drafter shares them.
type Vocabulary struct{ Embedding, Head kernels.Tensor }

// Target is the frozen decoder, or the first layers of it, on a device.
type Target struct {
	decoder
	Vocabulary
	layers  []layer
	windows []int // of each layer, 0 for full attention
	norm    kernels.Tensor
}

// LoadTarget uploads the first n layers of t; Session needs all t.Layers of them.
func LoadTarget(dev kernels.Device, t *hf.Target, n int) (*Target, error) {
	return FillTarget(dev, t, n, fromFile(dev, t))
}

// NewTarget builds the first n layers of a decoder shaped like t from a source; t need not have files.
func NewTarget(dev kernels.Device, t *hf.Target, n int, from Source) (*Target, error) {
	return FillTarget(dev, t, n, fromSource(dev, from))
}

// FillTarget is NewTarget for weights that may be made on the device.
func FillTarget(dev kernels.Device, t *hf.Target, n int, fill Fill) (*Target, error) {
	if n < 1 || n > t.Layers {
		return nil, fmt.Errorf("%d layers of a target that has %d", n, t.Layers)
	}
	m := &Target{decoder: newDecoder(dev, t.Geometry)}
	up := newUploader(dev, t.Shapes(), fill)
	m.Vocabulary = up.vocabulary(t.TieEmbeddings)
	for i := range n {
		m.windows = append(m.windows, t.LayerWindow(i))
		of := func(get func(string) kernels.Tensor) func(hf.Part) kernels.Tensor {
			return func(p hf.Part) kernels.Tensor { return get("model." + hf.LayerName(i, p)) }
		}
		m.layers = append(m.layers, newLayer(of(up.product), of(up.vector)))
	}
	m.norm = up.vector("model." + hf.FinalNorm)
	return m, up.finish()
}

// LoadVocabulary uploads only what a drafter needs of its target.
func LoadVocabulary(dev kernels.Device, t *hf.Target) (Vocabulary, error) {
	up := newUploader(dev, t.Shapes(), fromFile(dev, t))
	return up.vocabulary(t.TieEmbeddings), up.finish()
}

// Forward runs packed documents, document i being tokens [offsets[i], offsets[i+1]), each with positions from 0, and
// writes the output of layer taps[k] into plane k of out [K·T, H], its rows [k·T, (k+1)·T): the layout of a hand-off,
// which Concat turns into rows for the drafter. It ends after the last tap. Taps ascend.
func (m *Target) Forward(ids, offsets []int32, taps []int, out kernels.Tensor) error {
	if err := m.checkTaps(taps); err != nil {
		return err
	}
	if err := checkOffsets(offsets, len(ids)); err != nil {
		return err
	}
	if err := m.checkIDs(ids); err != nil {
		return err
	}
	if len(ids) == 0 {
		return nil
	}
	m.arena.Reset()
	p := pass{pos: m.dev.Index(positions(offsets))}
	for i := range len(offsets) - 1 {
		lo, hi := offsets[i], offsets[i+1]
		p.segs = append(p.segs, kernels.Segment{Q0: lo, Q1: hi, K0: lo, K1: hi})
	}
	x := m.embed(ids)
	for i, l := range m.layers[:taps[len(taps)-1]+1] {
		mark := m.arena.Mark()
		k, v := m.arena.Half(x.Rows, m.geo.KVSize()), m.arena.Half(x.Rows, m.geo.KVSize())
		m.layer(l, x, cache{k: k, v: v, newK: k, newV: v}, p, m.windows[i])
		m.arena.Release(mark)
		if at := slices.Index(taps, i); at >= 0 {
			m.dev.Copy(out.RowRange(at*x.Rows, (at+1)*x.Rows), x)
		}
	}
	return nil
}

// Concat puts the planes of a hand-off [K·T, H] side by side: rows [T, K·H].
func Concat(dev kernels.Device, rows, planes kernels.Tensor) {
	for at, k := 0, 0; at < planes.Rows; at, k = at+rows.Rows, k+1 {
		dev.CopyCols(rows, k*planes.Cols, planes.RowRange(at, at+rows.Rows))
	}
}

// pass is what all layers of one call share.
type pass struct {
	pos  kernels.Index
	segs []kernels.Segment
}

// cache is one layer's keys and values: all that the queries may see, and the rows of the new tokens among them.
type cache struct{ k, v, newK, newV kernels.Tensor }

func (m *Target) embed(ids []int32) kernels.Tensor {
	x := m.arena.Half(len(ids), m.geo.HiddenSize)
	m.dev.Gather(x, m.Embedding, m.dev.Index(ids))
	return x
}

// layer runs one layer on x [T, H] in place; window is its sliding window or 0.
func (m *Target) layer(l layer, x kernels.Tensor, c cache, p pass, window int) {
	u := m.normed(x, l.inputNorm, kernels.Tensor{})
	q, o := m.arena.Half(x.Rows, m.geo.QSize()), m.arena.Half(x.Rows, m.geo.QSize())
	m.linear(q, u, l.q, l.qBias)
	m.linear(c.newK, u, l.k, l.kBias)
	m.linear(c.newV, u, l.v, l.vBias)
	m.dev.HeadNormRope(q, q, l.qNorm, kernels.Tensor{}, m.geo.Heads, p.pos, m.rope, m.eps())
	m.dev.HeadNormRope(c.newK, c.newK, l.kNorm, kernels.Tensor{}, m.geo.KVHeads, p.pos, m.rope, m.eps())
	m.dev.CausalAttention(o, q, c.k, c.v, p.segs, m.heads(window))
	m.residual(x, o, l.o, l.oBias)

	rows := min(x.Rows, mlpRows)
	gate, up := m.arena.Half(rows, m.geo.IntermediateSize), m.arena.Half(rows, m.geo.IntermediateSize)
	m.dev.RMSNorm(u, x, l.postNorm, kernels.Tensor{}, m.eps())
	for lo := 0; lo < x.Rows; lo += mlpRows {
		hi := min(lo+mlpRows, x.Rows)
		g, w, y := gate.RowRange(0, hi-lo), up.RowRange(0, hi-lo), u.RowRange(lo, hi)
		m.linear(g, y, l.gate, kernels.Tensor{})
		m.linear(w, y, l.up, kernels.Tensor{})
		m.dev.SwiGLU(g, g, w)
		m.residual(x.RowRange(lo, hi), g, l.down, kernels.Tensor{})
	}
}

func (m *Target) checkTaps(taps []int) error {
	if len(taps) == 0 {
		return fmt.Errorf("no taps")
	}
	for i, t := range taps {
		if t < 0 || t >= len(m.layers) || i > 0 && t <= taps[i-1] {
			return fmt.Errorf("taps %v: want ascending layers below %d", taps, len(m.layers))
		}
	}
	return nil
}

func (m *Target) checkIDs(ids []int32) error { return checkIDs(ids, m.geo.VocabSize) }
