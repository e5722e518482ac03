package scenario

import (
	"penstock/broker/policy"
	"penstock/schema"
)

// OfRun is the scenario of a run: the documents of its store, its windows, instances and slots, on the GPUs that its device
// names, or a device for each instance. How times vary with a batch's work is given by rates; what they are, [Scenario.With]
// says.
func OfRun(c schema.Config, store string, row int, forward, step policy.Rates) *Scenario {
	s := &Scenario{
		Seed: c.Seed, Hosts: 1, Look: 0.5, Epochs: c.Train.Epochs, Batch: c.Batch.Tokens, Window: Window(c.Window),
		Lengths: Lengths{Store: store, Max: c.Data.MaxLength, Buckets: c.Data.Buckets},
		Anchors: c.Train.Anchors, Block: c.Draft.BlockSize, Row: row,
		Target: Stage{c.Target.Instances, c.Target.Slots, cost(forward)},
	}
	s.Pack.Stage = Stage{Instances: c.Pack.Instances, Slots: c.Pack.Slots}
	s.Draft = DraftStage{Stage: Stage{Instances: c.Draft.Ranks, Cost: cost(step)}, GPUs: 1}
	if g, ok := schema.ParseGPUs(c.Device); ok {
		s.GPUs = g.N
	}
	return s
}

func cost(r policy.Rates) Cost { return Cost{Token: r.Token, Square: r.Square, Slot: r.Slot} }

// Shares reports whether a target and a rank, or several of them, share a device.
func (s *Scenario) Shares() bool { return s.GPUs > 0 && s.GPUs < s.Target.Instances+s.Draft.Instances }
