package target

import (
	"time"

	"penstock/broker/policy"
	"penstock/schema/hf"
)

// costs predicts how long this instance takes for a forward: the operations that it needs, by the time that the
// instance has been measured to take for one.
type costs struct {
	rates    policy.Rates // operations
	measured policy.Correction
}

// newCosts counts the operations of a forward through the first layers of a target: two for each multiplication and
// addition of a matrix product, and causal attention.
func newCosts(g hf.Geometry, layers int) *costs {
	h, q, kv, inter := float64(g.HiddenSize), float64(g.QSize()), float64(g.KVSize()), float64(g.IntermediateSize)
	n := float64(layers)
	return &costs{rates: policy.Rates{Token: n * (2*(2*h*q+2*h*kv+3*h*inter) + 2*q), Square: n * 2 * q}}
}

func (c *costs) of(w policy.Work) float64 { return c.rates.Of(w) }

// seconds is a cost as this instance is expected to take for it.
func (c *costs) seconds(bucket string, cost float64) float64 { return c.measured.Seconds(bucket, cost) }

// observe takes in how long a forward took.
func (c *costs) observe(bucket string, w policy.Work, d time.Duration) {
	c.measured.Observe(bucket, c.of(w), d.Seconds())
}
