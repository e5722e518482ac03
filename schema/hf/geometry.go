package hf

import (
	"errors"
	"fmt"
)

// Geometry is the size of a decoder.
type Geometry struct {
	HiddenSize       int
	IntermediateSize int
	Layers           int
	Heads            int
	KVHeads          int
	HeadDim          int
	VocabSize        int
	MaxPositions     int
	RMSNormEps       float64
	RopeTheta        float64
	Scaling          RopeScaling
	AttentionBias    bool // attention_bias: q, k, v and o have bias vectors; a family may have some of them without it
}

// QSize returns the columns of the queries of one token.
func (g Geometry) QSize() int { return g.Heads * g.HeadDim }

// KVSize returns the columns of the keys, or of the values, of one token.
func (g Geometry) KVSize() int { return g.KVHeads * g.HeadDim }

// Bounds of what is read from a file: products of two sizes cannot overflow, lists of layers stay short.
const (
	maxSize   = 1 << 28
	maxLayers = 4096
)

// check returns every problem that has nothing to do with the family.
func (g Geometry) check() error {
	var errs []error
	for _, f := range []struct {
		key string
		val int
	}{
		{"hidden_size", g.HiddenSize}, {"intermediate_size", g.IntermediateSize}, {"num_hidden_layers", g.Layers},
		{"num_attention_heads", g.Heads}, {"num_key_value_heads", g.KVHeads}, {"head_dim", g.HeadDim},
		{"vocab_size", g.VocabSize}, {"max_position_embeddings", g.MaxPositions},
	} {
		if f.val < 1 || f.val > maxSize {
			errs = append(errs, fmt.Errorf("%s: %d is not in 1..%d", f.key, f.val, maxSize))
		}
	}
	if g.Layers > maxLayers {
		errs = append(errs, fmt.Errorf("num_hidden_layers: %d is over %d", g.Layers, maxLayers))
	}
	if g.KVHeads > 0 && g.Heads%g.KVHeads != 0 {
		errs = append(errs, fmt.Errorf("num_attention_heads: %d is no multiple of num_key_value_heads %d", g.Heads, g.KVHeads))
	}
	if g.HeadDim%2 != 0 {
		errs = append(errs, fmt.Errorf("head_dim: %d is odd, rotary positions need pairs", g.HeadDim))
	}
	if !(g.RMSNormEps > 0 && g.RMSNormEps < 1) {
		errs = append(errs, fmt.Errorf("rms_norm_eps: %g is not between 0 and 1", g.RMSNormEps))
	}
	if !(g.RopeTheta > 1) {
		errs = append(errs, fmt.Errorf("rope_theta: %g is not above 1", g.RopeTheta))
	}
	return errors.Join(errs...)
}
