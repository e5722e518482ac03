package hf

import (
	"errors"
	"fmt"
	"math"
)

// Kinds of RopeScaling.
const (
	LinearRope = "linear"
	Llama3Rope = "llama3"
	YarnRope   = "yarn"
)

// RopeScaling stretches rotary positions beyond the length that a model was first trained at. The zero value is none.
type RopeScaling struct {
	Kind     string  // LinearRope, Llama3Rope, YarnRope, or "" for none
	Factor   float64 // by which positions are stretched
	Original int     // positions before the stretching: llama3, yarn

	LowFreq, HighFreq  float64 // llama3: turns over Original below which a frequency is stretched, above which it is kept
	BetaFast, BetaSlow float64 // yarn: turns over Original above which a frequency is kept, below which it is stretched
	Attention          float64 // yarn: factor of cosine and sine
	Exact              bool    // yarn: the bounds between kept and stretched frequencies are not rounded to whole ones
}

// rope is rope_parameters, or what older configurations call rope_scaling.
type rope struct {
	Type      string   `json:"rope_type"`
	OldType   string   `json:"type"`
	Theta     *float64 `json:"rope_theta"`
	Factor    *float64 `json:"factor"`
	Original  *int     `json:"original_max_position_embeddings"`
	LowFreq   *float64 `json:"low_freq_factor"`
	HighFreq  *float64 `json:"high_freq_factor"`
	BetaFast  *float64 `json:"beta_fast"`
	BetaSlow  *float64 `json:"beta_slow"`
	Attention *float64 `json:"attention_factor"`
	MScale    *float64 `json:"mscale"`
	MScaleAll *float64 `json:"mscale_all_dim"`
	Truncate  *bool    `json:"truncate"`
	Partial   *float64 `json:"partial_rotary_factor"`
}

// positions reads the base frequency and the scaling from either spelling; theta is what an absent base means, 0 if it
// must be there.
func (c *config) positions(theta float64) (float64, RopeScaling, error) {
	var scaling RopeScaling
	var errs []error
	for _, r := range []struct {
		key string
		*rope
	}{{"rope_scaling", c.RopeScaling}, {"rope_parameters", c.RopeParameters}} {
		if r.rope == nil {
			continue
		}
		s, err := r.scaling(r.key, or(c.MaxPositions, 0))
		switch {
		case err != nil:
			errs = append(errs, err)
		case scaling.Kind != "" && s.Kind != "" && s != scaling:
			errs = append(errs, errors.New("rope_scaling: differs from rope_parameters"))
		case s.Kind != "":
			scaling = s
		}
		if or(r.Partial, 1) != 1 {
			errs = append(errs, fmt.Errorf("%s: partial_rotary_factor %g is not supported, only whole heads are rotated", r.key, *r.Partial))
		}
	}
	if or(c.Partial, 1) != 1 {
		errs = append(errs, fmt.Errorf("partial_rotary_factor: %g is not supported, only whole heads are rotated", *c.Partial))
	}
	base, err := c.theta(theta)
	return base, scaling, errors.Join(append(errs, err)...)
}

func (c *config) theta(def float64) (float64, error) {
	var inner *float64
	if c.RopeParameters != nil {
		inner = c.RopeParameters.Theta
	}
	switch {
	case c.RopeTheta == nil && inner == nil && def == 0:
		return 0, errors.New("rope_theta: is missing, and rope_parameters has none")
	case inner == nil:
		return or(c.RopeTheta, def), nil
	case c.RopeTheta != nil && *c.RopeTheta != *inner:
		return 0, fmt.Errorf("rope_theta: is %g, but rope_parameters says %g", *c.RopeTheta, *inner)
	}
	return *inner, nil
}

// scaling reads one spelling. key leads its errors; longest is max_position_embeddings, 0 if that is missing.
func (r *rope) scaling(key string, longest int) (RopeScaling, error) {
	kind := r.Type
	if kind == "" {
		kind = r.OldType
	}
	var errs []error
	need := func(name string, v *float64) float64 {
		if v == nil {
			errs = append(errs, fmt.Errorf("%s: %s is missing", key, name))
			return 2
		}
		return *v
	}
	s := RopeScaling{Kind: kind}
	switch kind {
	case "", "default":
		return RopeScaling{}, nil
	case LinearRope:
		s.Factor = need("factor", r.Factor)
	case Llama3Rope:
		s.Factor, s.Original = need("factor", r.Factor), or(r.Original, longest)
		s.LowFreq, s.HighFreq = need("low_freq_factor", r.LowFreq), need("high_freq_factor", r.HighFreq)
		if !(s.LowFreq > 0 && s.HighFreq > s.LowFreq) && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("%s: want 0 < low_freq_factor %g < high_freq_factor %g", key, s.LowFreq, s.HighFreq))
		}
	case YarnRope:
		s.Original = or(r.Original, longest)
		if s.Factor = or(r.Factor, 0); r.Factor == nil && r.Original != nil && *r.Original > 0 {
			s.Factor = float64(longest) / float64(*r.Original)
		}
		s.BetaFast, s.BetaSlow, s.Exact = or(r.BetaFast, 32), or(r.BetaSlow, 1), !or(r.Truncate, true)
		if !(s.BetaSlow > 0 && s.BetaFast >= s.BetaSlow) {
			errs = append(errs, fmt.Errorf("%s: want 0 < beta_slow %g ≤ beta_fast %g", key, s.BetaSlow, s.BetaFast))
		}
		s.Attention = or(r.Attention, mscale(s.Factor, 1))
		if all := or(r.MScaleAll, 0); r.Attention == nil && or(r.MScale, 0) != 0 && all != 0 {
			s.Attention = mscale(s.Factor, *r.MScale) / mscale(s.Factor, all)
		}
	default:
		return s, fmt.Errorf("%s: type %q is not supported, only default, %s, %s and %s are", key, kind, LinearRope, Llama3Rope, YarnRope)
	}
	if !(s.Factor >= 1) {
		errs = append(errs, fmt.Errorf("%s: factor %g is not at least 1", key, s.Factor))
	}
	if kind != LinearRope && (s.Original < 1 || s.Original > maxSize) {
		errs = append(errs, fmt.Errorf("%s: original_max_position_embeddings %d is not in 1..%d", key, s.Original, maxSize))
	}
	return s, errors.Join(errs...)
}

// mscale is the factor by which yarn sharpens attention (Peng et al., 2023).
func mscale(factor, m float64) float64 {
	if factor <= 1 {
		return 1
	}
	return 0.1*m*math.Log(factor) + 1
}

// keys spells a scaling out for a configuration that is written, under rope_scaling and rope_parameters alike.
func (s RopeScaling) keys(theta float64) map[string]any {
	m := map[string]any{"rope_theta": theta, "rope_type": "default"}
	if s.Kind == "" {
		return m
	}
	m["rope_type"], m["type"], m["factor"] = s.Kind, s.Kind, s.Factor
	if s.Kind != LinearRope {
		m["original_max_position_embeddings"] = s.Original
	}
	switch s.Kind {
	case Llama3Rope:
		m["low_freq_factor"], m["high_freq_factor"] = s.LowFreq, s.HighFreq
	case YarnRope:
		m["beta_fast"], m["beta_slow"], m["attention_factor"], m["truncate"] = s.BetaFast, s.BetaSlow, s.Attention, !s.Exact
		if usual := mscale(s.Factor, 1); s.Attention != usual { // SGLang, and vLLM once, know the factor by what it is of the usual one
			m["attn_factor"] = s.Attention / usual
		}
	}
	return m
}
