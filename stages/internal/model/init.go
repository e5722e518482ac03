package model

import (
	"fmt"
	"hash/fnv"
	"strings"

	"penstock/schema/hf"
	"penstock/stages/internal/counter"
)

// initStd is the standard deviation of fresh matrices.
const initStd = 0.02

// InitRandom makes matrices normal with deviation 0.02 and norms 1, fixed by the seed and each tensor's name. Biases are 0.
func InitRandom(seed uint64) Source {
	return func(s hf.Shape) ([]float32, error) {
		rows, cols := matrix(s.Dims)
		v := make([]float32, rows*cols)
		switch {
		case strings.HasSuffix(s.Name, ".bias"):
		case len(s.Dims) == 1:
			for i := range v {
				v[i] = 1
			}
		default:
			r := stream(seed, s.Name)
			for i := range v {
				v[i] = initStd * normal(r)
			}
		}
		return v, nil
	}
}

// stream is the random numbers of a tensor.
func stream(seed uint64, name string) *counter.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return counter.New(seed, counter.Init, h.Sum64())
}

// normal returns the sum of twelve 16-bit numbers, centred, over 2¹⁶ (Irwin and Hall): of mean 0, variance 1 to nine
// digits and no value beyond ±6. Being integer arithmetic, it is the same to the last bit on every machine.
func normal(r *counter.Rand) float32 {
	sum := 0
	for range 3 {
		for x := r.Uint64(); x != 0; x >>= 16 {
			sum += int(x & 0xFFFF)
		}
	}
	return float32(sum-6*0xFFFF) / (1 << 16)
}

// FromTarget says what a fresh drafter takes over from the target; everything else comes from Rest.
type FromTarget struct {
	Layers    []int     // the target's layer for each of the drafter's
	FinalNorm bool      // norm takes the target's final norm
	FC        []float32 // fc is [FC[0]·I, …, FC[K-1]·I], a weighted sum of the taps; nil for Rest's
	Rest      Source
}

// InitFromTarget returns the source of a drafter shaped by cfg that starts from t's own layers.
func InitFromTarget(t *hf.Target, cfg hf.DrafterConfig, from FromTarget) (Source, error) {
	if len(from.Layers) != cfg.Layers {
		return nil, fmt.Errorf("initialise from the target: %d layers named for a drafter of %d", len(from.Layers), cfg.Layers)
	}
	for _, l := range from.Layers {
		if l < 0 || l >= t.Layers {
			return nil, fmt.Errorf("initialise from the target: layer %d of a target that has %d", l, t.Layers)
		}
	}
	if from.FC != nil && len(from.FC) != len(cfg.Taps) {
		return nil, fmt.Errorf("initialise from the target: %d factors for %d taps", len(from.FC), len(cfg.Taps))
	}
	file := Files(t)
	return func(s hf.Shape) ([]float32, error) {
		var layer int
		var part string
		if n, _ := fmt.Sscanf(s.Name, "layers.%d.%s", &layer, &part); n == 2 {
			return file(hf.Shape{Name: "model." + hf.LayerName(from.Layers[layer], hf.Part(part)), Dims: s.Dims})
		}
		switch {
		case s.Name == hf.FinalNorm && from.FinalNorm:
			return file(hf.Shape{Name: "model." + hf.FinalNorm, Dims: s.Dims})
		case s.Name == hf.FC && from.FC != nil:
			return identities(s.Dims, from.FC), nil
		}
		return from.Rest(s)
	}, nil
}

// identities returns [f₀·I, f₁·I, …] for square blocks; a wider block than H keeps its first H columns' diagonal.
func identities(dims []int, factors []float32) []float32 {
	rows, cols := dims[0], dims[1]
	v := make([]float32, rows*cols)
	for k, f := range factors {
		for i := range min(rows, cols/len(factors)) {
			v[i*cols+k*cols/len(factors)+i] = f
		}
	}
	return v
}
