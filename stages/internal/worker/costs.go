package worker

import (
	"sync"
	"time"

	"penstock/broker/policy"
	"penstock/schema/hf"
)

// Costs predicts how long this instance takes for a batch: the operations that the batch needs, by the time that the
// instance has been measured to take for one. Operations are two for each multiplication and addition of a matrix product,
// and attention. It is safe for concurrent use.
type Costs struct {
	rates    policy.Rates // operations
	mu       sync.Mutex
	measured policy.Correction
}

// TargetCosts are those of a forward through a target's first layers: linear in length, and quadratic by its causal
// attention.
func TargetCosts(g hf.Geometry, layers int) *Costs {
	h, q, kv, inter := float64(g.HiddenSize), float64(g.QSize()), float64(g.KVSize()), float64(g.IntermediateSize)
	n := float64(layers)
	return &Costs{rates: policy.Rates{Token: n * (2*(2*h*q+2*h*kv+3*h*inter) + 2*q), Square: n * 2 * q}}
}

// DraftCosts are those of a drafter's forward and backward: context rows pass its projection and become keys and values of
// each layer, slots pass whole layers and the vocabulary, which is frozen. Attention is left to the measurement.
func DraftCosts(d hf.DrafterConfig) *Costs {
	h, q, kv, inter := float64(d.HiddenSize), float64(d.QSize()), float64(d.KVSize()), float64(d.IntermediateSize)
	n := float64(d.Layers)
	return &Costs{rates: policy.Rates{
		Token: 4*float64(len(d.Taps)*d.TargetHiddenSize)*h + n*6*2*h*kv,
		Slot:  n*6*(2*h*q+2*h*kv+3*h*inter) + 4*float64(d.VocabSize)*h,
	}}
}

// DraftRates say how many operations a drafter of the run takes for a batch.
func (w *Worker) DraftRates() (policy.Rates, error) {
	t, err := hf.OpenTarget(w.Config.Target.Dir)
	if err != nil {
		return policy.Rates{}, err
	}
	defer t.Close()
	shape, err := DrafterConfig(w.Config, t)
	if err != nil {
		return policy.Rates{}, err
	}
	return DraftCosts(shape).Rates(), nil
}

// Rates say how the operations of a batch follow from its work.
func (c *Costs) Rates() policy.Rates { return c.rates }

// Seconds is what a batch of a bucket is expected to take. Before the first measurement it is a number of operations,
// which orders batches as well.
func (c *Costs) Seconds(bucket string, w policy.Work) float64 {
	return c.SecondsFor(bucket, c.rates.Of(w))
}

// SecondsFor is what so many operations on a batch of a bucket are expected to take.
func (c *Costs) SecondsFor(bucket string, operations float64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.measured.Seconds(bucket, operations)
}

// Pace is how many seconds this instance is measured to take for an operation; 0 before the first measurement.
func (c *Costs) Pace() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.measured.Pace()
}

// Observe takes in how long a batch took.
func (c *Costs) Observe(bucket string, w policy.Work, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.measured.Observe(bucket, c.rates.Of(w), d.Seconds())
}
