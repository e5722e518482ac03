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

// InitFromTarget starts a drafter shaped by cfg from the target layer that the last tap feeds. Every drafter layer is that
// layer, its input norm folded into the query, key and value projections; fc passes the last tap on, and all other norms
// are 1. So keys and values of the context are, at the first step, those that the target itself computes there.
func InitFromTarget(t *hf.Target, cfg hf.DrafterConfig) (Source, error) {
	if cfg.Geometry.HiddenSize != t.HiddenSize || cfg.QSize() != t.QSize() || cfg.KVSize() != t.KVSize() || cfg.IntermediateSize != t.IntermediateSize {
		return nil, fmt.Errorf("initialise from the target: the drafter's layers are shaped differently from those of %s", t.Dir)
	}
	file := Files(t)
	from := min(cfg.Taps[len(cfg.Taps)-1]+1, t.Layers-1)
	has := map[hf.Part]bool{} // what that layer has
	for _, s := range t.Shapes() {
		if name, ok := strings.CutPrefix(s.Name, "model."+hf.LayerName(from, "")); ok {
			has[hf.Part(name)] = true
		}
	}
	read := func(part hf.Part, dims []int) ([]float32, error) {
		return file(hf.Shape{Name: "model." + hf.LayerName(from, part), Dims: dims})
	}
	return func(s hf.Shape) ([]float32, error) {
		var layer int
		var name string
		n, _ := fmt.Sscanf(s.Name, "layers.%d.%s", &layer, &name)
		part := hf.Part(name)
		switch {
		case s.Name == hf.FC:
			return lastTap(s.Dims), nil
		case n < 2, part == hf.InputNorm:
			return ones(s.Dims), nil
		case part == hf.QProj, part == hf.KProj, part == hf.VProj:
			w, err := read(part, s.Dims)
			if err != nil {
				return nil, err
			}
			norm, err := read(hf.InputNorm, []int{t.HiddenSize})
			if err != nil {
				return nil, err
			}
			for i := range w {
				w[i] *= norm[i%t.HiddenSize]
			}
			return w, nil
		}
		if !has[part] {
			return neutral(part, s.Dims), nil
		}
		return read(part, s.Dims)
	}, nil
}

// neutral is a part that the target does not have: a norm of ones or a bias of zeros.
func neutral(part hf.Part, dims []int) []float32 {
	if part == hf.QNorm || part == hf.KNorm {
		return ones(dims)
	}
	return make([]float32, dims[0])
}

// lastTap is the fc [H, K·H] that passes the last tap on: [0 | … | 0 | I].
func lastTap(dims []int) []float32 {
	rows, cols := dims[0], dims[1]
	v := make([]float32, rows*cols)
	for i := range rows {
		v[i*cols+cols-rows+i] = 1
	}
	return v
}

func ones(dims []int) []float32 {
	v := make([]float32, dims[0])
	for i := range v {
		v[i] = 1
	}
	return v
}
