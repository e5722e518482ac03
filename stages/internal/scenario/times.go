package scenario

import (
	"penstock/broker/policy"
	"penstock/stages/internal/counter"
)

// Times are the seconds of batches under a scenario, noise and slow instances aside.
type Times struct {
	s            *Scenario
	target, pack policy.Rates
	draft        policy.Rates
}

// Times scales the scenario's costs to an average over all batches, of which total is the work.
func (s *Scenario) Times(total policy.Work) Times {
	scale := func(c Cost) policy.Rates {
		r := c.Rates()
		if c.Batch == 0 {
			return r
		}
		f := c.Batch * total.Tokens / float64(s.Batch) / r.Of(total)
		return policy.Rates{Token: f * r.Token, Square: f * r.Square, Slot: f * r.Slot}
	}
	return Times{s: s, target: scale(s.Target.Cost), pack: scale(s.Pack.Cost), draft: scale(s.Draft.Cost)}
}

// Plain is the scenario with these times, multiplied by scale, as seconds that depend on no plan.
func (t Times) Plain(scale float64) *Scenario {
	s := *t.s
	plain := func(c *Cost, r policy.Rates) {
		c.Token, c.Square, c.Slot, c.Batch = scale*r.Token, scale*r.Square, scale*r.Slot, 0
	}
	plain(&s.Target.Cost, t.target)
	plain(&s.Pack.Cost, t.pack)
	plain(&s.Draft.Cost, t.draft)
	s.Pack.Copy /= scale
	s.Pack.Network /= scale
	s.Draft.Optimizer *= scale
	s.Handoff *= scale
	return &s
}

// Forward is how long a target works on a batch.
func (t Times) Forward(w policy.Work) float64 { return t.target.Of(w) }

// Step is how long a rank works on a batch.
func (t Times) Step(w policy.Work) float64 { return t.draft.Of(w) }

// Pack is how long a packer copies a batch, from another host where remote.
func (t Times) Pack(w policy.Work, remote bool) float64 {
	bytes := w.Tokens * float64(t.s.Row)
	seconds := t.pack.Of(w)
	if t.s.Pack.Copy > 0 {
		copies := 1.0
		if t.s.Pack.Host {
			copies = 2
		}
		seconds += copies * bytes / t.s.Pack.Copy
	}
	if remote && t.s.Pack.Network > 0 {
		seconds = max(seconds, bytes/t.s.Pack.Network)
	}
	return seconds
}

// Kinds of draws.
const (
	forwardNoise = 0x666f7277 + iota
	stepNoise
	fetchNoise
)

// noise draws a factor in 1±size for an attempt at a batch; every policy sees the same.
func (s *Scenario) noise(kind uint64, size float64, batch, attempt int) float64 {
	if size == 0 {
		return 1
	}
	return 1 + size*(2*counter.New(s.Seed, kind, uint64(batch), uint64(attempt)).Float64()-1)
}

// ForwardNoise is the factor on an attempt at a batch's forward.
func (s *Scenario) ForwardNoise(batch, attempt int) float64 {
	return s.noise(forwardNoise, s.Target.Cost.Noise, batch, attempt)
}

// StepNoise is the factor on an attempt at a batch's step.
func (s *Scenario) StepNoise(batch, attempt int) float64 {
	return s.noise(stepNoise, s.Draft.Cost.Noise, batch, attempt)
}

// Fetch draws how long fifo-staged fetches and concatenates a batch.
func (s *Scenario) Fetch(batch int) float64 {
	lo, hi := s.Staged.Fetch[0], s.Staged.Fetch[1]
	return lo + (hi-lo)*counter.New(s.Seed, fetchNoise, uint64(batch)).Float64()
}

// Factor is how much slower an instance is at a time.
func (s *Scenario) Factor(instance string, at float64) float64 {
	f := 1.0
	for _, v := range s.Slow {
		if v.Instance == instance && at >= v.From && (v.To == 0 || at < v.To) {
			f *= v.Factor
		}
	}
	return f
}
