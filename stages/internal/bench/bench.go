package bench

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"penstock/kernels"
	"penstock/schema/hf"
	"penstock/stages/internal/geometry"
	"penstock/stages/internal/model"
	"penstock/stages/internal/plan"
)

// Options say what is measured.
type Options struct {
	Device  string
	Model   geometry.Model
	Lengths Lengths
	Batch   int // documents of a batch
	Anchors int // at most, of a document
	Seconds float64
	Profile bool // add the time of each op
}

// Report is the speed of one device on real tokens. There is no padding.
type Report struct {
	Device    string             `json:"device"` // as it names itself
	Geometry  string             `json:"geometry"`
	Lengths   string             `json:"lengths"`
	Batches   int                `json:"batches"`
	Tokens    int                `json:"tokens"`
	Slots     int                `json:"slots"`
	Seconds   float64            `json:"seconds"`
	TokensS   float64            `json:"tokens_s"`
	SlotsS    float64            `json:"slots_s"`
	TFLOPS    float64            `json:"tflops"`                // of the operations that the model needs
	Ceiling   float64            `json:"ceiling_tflops"`        // of matrix products at the model's shapes, sustained
	Share     float64            `json:"share_of_ceiling"`      // TFLOPS / Ceiling
	Optimizer float64            `json:"optimizer_s,omitempty"` // of a training step, the optimizer's part, in seconds
	Idle      map[string]float64 `json:"idle"`                  // share of time by instance; empty where one process computes throughout
	Ops       map[string]float64 `json:"ops,omitempty"`         // seconds of a batch by op, each alone
	PeakBytes int64              `json:"peak_bytes"`            // of the GPU's memory, or of this process's on a CPU
}

// batch is one packed row of made-up documents; the last 60 % of each are supervised.
type batch struct {
	ids, offsets, anchors []int32
	mask                  []uint8
}

func (o Options) batch(r *rand.Rand) batch {
	b := batch{offsets: o.Lengths.draw(r, o.Batch)}
	n := b.offsets[o.Batch]
	b.ids, b.mask = make([]int32, n), make([]uint8, n)
	for i := range b.ids {
		b.ids[i] = int32(r.IntN(o.Model.Target.VocabSize))
	}
	for d := range o.Batch {
		lo, hi := b.offsets[d], b.offsets[d+1]
		for t := lo + (hi-lo)*2/5; t < hi; t++ {
			b.mask[t] = 1
		}
		for _, t := range plan.Anchors(0, 0, r.Uint64(), plan.Valid(b.mask[lo:hi]), o.Anchors) {
			b.anchors = append(b.anchors, lo+t)
		}
	}
	return b
}

// largest is the shape of the batch that takes the most memory.
func (o Options) largest() (s model.Shape) {
	o.Lengths.fixed = o.Lengths.Longest()
	b := o.batch(rand.New(rand.NewPCG(0, 0)))
	for d := range o.Batch {
		lo, hi := b.offsets[d], b.offsets[d+1]
		s.Lengths = append(s.Lengths, int(hi-lo))
		s.Anchors = append(s.Anchors, min(o.Anchors, plan.CountValid(b.mask[lo:hi])))
	}
	return s
}

// work is one batch's cost, once it is done.
type work struct {
	slots     int
	flops     float64
	optimizer float64 // seconds
}

// measure runs step on the largest batch to warm up, then for the time asked for, or once if that is longer, and after it
// matrix products of the geometry's shapes for as long. What allocates memory of a GPU after the warm-up fails.
func (o Options) measure(ctx context.Context, dev *profiler, g hf.Geometry, step func(batch) (work, error)) (Report, error) {
	r := rand.New(rand.NewPCG(0, 0))
	most := o
	most.Lengths.fixed = o.Lengths.Longest()
	for range 2 { // a device has two sets of lists
		if _, err := step(most.batch(r)); err != nil {
			return Report{}, err
		}
	}
	warm, onGPU := allocated(dev.Device)
	rep := Report{Device: dev.Name(), Geometry: o.Model.Name, Lengths: o.Lengths.String(), Idle: map[string]float64{}}
	var flops float64
	for rep.Batches == 0 || rep.Seconds < o.Seconds {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		b := o.batch(r)
		start := time.Now()
		w, err := step(b)
		if err != nil {
			return Report{}, err
		}
		rep.Seconds += time.Since(start).Seconds()
		rep.Batches++
		rep.Tokens += len(b.ids)
		rep.Slots += w.slots
		flops += w.flops
		rep.Optimizer += w.optimizer
	}
	rep.Optimizer /= float64(rep.Batches)
	rep.TokensS, rep.SlotsS = float64(rep.Tokens)/rep.Seconds, float64(rep.Slots)/rep.Seconds
	rep.TFLOPS = flops / rep.Seconds / 1e12
	if now, _ := allocated(dev.Device); now != warm {
		return Report{}, fmt.Errorf("%d bytes were allocated on the device after the warm-up", now-warm)
	}
	var err error
	if rep.PeakBytes = warm; !onGPU {
		rep.PeakBytes, err = peak()
	}
	if err == nil {
		rep.Ceiling, err = o.ceiling(ctx, dev, g)
	}
	rep.Share = rep.TFLOPS / rep.Ceiling
	if err == nil && o.Profile {
		dev.on = true
		_, err = step(o.batch(r))
		rep.Ops = dev.seconds
	}
	return rep, err
}

// allocated is the memory that a device holds; ok is false where it does not say.
func allocated(dev kernels.Device) (bytes int64, ok bool) {
	d, ok := dev.(interface{ Allocated() int64 })
	if ok {
		bytes = d.Allocated()
	}
	return bytes, ok
}

// longestRow bounds the tokens of a batch: their slots, too, are counted in 32 bits.
const longestRow = 1 << 24

// CheckBatch refuses batches that cannot be made or that the model cannot hold, in the words of the command line.
func (o Options) CheckBatch() error {
	switch longest := o.Lengths.Longest(); {
	case o.Batch < 1:
		return fmt.Errorf("--batch %d: a batch is at least one document", o.Batch)
	case longest > o.Model.Target.MaxPositions:
		return fmt.Errorf("--lengths %s: documents of %d tokens exceed the %d positions of %s", o.Lengths, longest, o.Model.Target.MaxPositions, o.Model.Name)
	case o.Batch > longestRow/longest:
		return fmt.Errorf("--batch %d: with documents of up to %d tokens a batch is at most %d of them", o.Batch, longest, longestRow/longest)
	}
	return nil
}

// Check refuses what cannot be measured, in the words of the command line, and opens nothing.
func (o Options) Check() error {
	switch {
	case o.Anchors < 1:
		return fmt.Errorf("--anchors %d: a document has at least one anchor", o.Anchors)
	case !(o.Seconds > 0) || math.IsInf(o.Seconds, 0):
		return fmt.Errorf("--seconds %g: the time to measure for is positive, and ends", o.Seconds)
	}
	return o.CheckBatch()
}

// peak is the largest resident size of this process so far.
func peak() (int64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("read the peak memory: %w", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(s.Text(), "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("read the peak memory: /proc/self/status names no VmHWM")
}
