package cli

import (
	"penstock/schema"
	"penstock/stages/internal/backend"
	"penstock/stages/internal/nvml"
)

// gpuMemory is how much memory of a GPU a run has taken, over what others had before it.
type gpuMemory struct {
	index        int // -1: the run is on no GPU, or the driver does not tell
	before, most uint64
}

func newGPUMemory(cfg schema.Config) gpuMemory {
	if index, ok := backend.GPU(cfg.Device); ok {
		if s, err := nvml.Read(index); err == nil {
			return gpuMemory{index: index, before: s.Used, most: s.Used}
		}
	}
	return gpuMemory{index: -1}
}

func (g *gpuMemory) weigh() {
	if g.index < 0 {
		return
	}
	if s, err := nvml.Read(g.index); err == nil {
		g.most = max(g.most, s.Used)
	}
}

// peak is the most that was seen, in bytes; 0 if it is not known.
func (g *gpuMemory) peak() int64 {
	if g.index < 0 {
		return 0
	}
	return int64(g.most - g.before)
}
