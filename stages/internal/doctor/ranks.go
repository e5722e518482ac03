package doctor

import (
	"penstock/schema"
	"penstock/stages/internal/backend"
)

// Ranks says how the ranks of a run on GPUs add up. Of one rank, or on no GPU, there is nothing to say.
func Ranks(cfg schema.Config) Checks { return ranks(cfg, backend.NCCL) }

func ranks(cfg schema.Config, nccl func() (string, error)) Checks {
	var c Checks
	g, ok := schema.ParseGPUs(cfg.Device)
	n := cfg.Draft.Ranks
	if !ok || n == 1 {
		return nil
	}
	const name = "ranks"
	switch {
	case cfg.Deterministic:
		c.good(name, "%d add up through host memory, in plan order", n)
	case cfg.Draft.Reduce == "host":
		c.good(name, "%d add up through host memory, as draft.reduce says", n)
	case n > g.N:
		c.good(name, "%d on %s add up through host memory: NCCL takes no GPU twice", n, cfg.Device)
	default:
		version, err := nccl()
		if err != nil {
			c.good(name, "%d add up through host memory: %v", n, err)
		} else {
			c.good(name, "%d add up by %s", n, version)
		}
	}
	return c
}
