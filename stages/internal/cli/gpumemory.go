package cli

import (
	"penstock/stages/internal/backend"
	"penstock/stages/internal/doctor"
)

// gpuMemory is how much memory of a GPU a run has taken, over what others had before it.
type gpuMemory struct {
	doctor.Need         // what it is to take
	before, most uint64 // bytes
}

// newGPUMemory watches those GPUs of a run whose driver tells.
func newGPUMemory(needs []doctor.Need) []*gpuMemory {
	var out []*gpuMemory
	for _, n := range needs {
		if s, err := backend.State(n.GPU); err == nil {
			out = append(out, &gpuMemory{n, s.Used, s.Used})
		}
	}
	return out
}

func (g *gpuMemory) weigh() {
	if s, err := backend.State(g.GPU); err == nil {
		g.most = max(g.most, s.Used)
	}
}

// peak is the most that was seen, in bytes.
func (g *gpuMemory) peak() int64 { return int64(g.most - g.before) }

// sayPeaks tells what the run took of memory at most, and of the GPUs' beside what was planned.
func (r *running) sayPeaks() {
	if r.peak > 0 { // something was left to do
		r.display.say("at most %s of memory over all processes", doctor.Bytes(r.peak))
	}
	for _, g := range r.gpus {
		if g.peak() > 0 {
			r.display.say("at most %s of the memory of gpu %d, planned %s", doctor.Bytes(g.peak()), g.GPU, doctor.Bytes(g.Bytes))
		}
	}
}
