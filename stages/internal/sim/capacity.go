package sim

import (
	"slices"
	"strings"
)

// capacity is how many tokens a second each stage could do by itself, and the least of them. Stages that share devices count
// as one.
func (w *world) capacity() (by map[string]float64, bound float64) {
	var tokens, forward, step, pack float64
	for _, b := range w.batches {
		tokens += b.work.Tokens
		forward += b.forward
		step += b.step
		pack += w.times.Pack(b.work, w.s.Hosts > 1)
	}
	step += w.s.Draft.Optimizer * float64(len(w.windows)) * float64(len(w.ranks))
	by = map[string]float64{packStage: tokens / pack * float64(len(w.packers))}
	if pack == 0 {
		delete(by, packStage)
	}
	if n := w.s.GPUs; n > 0 && n < len(w.targets)+len(w.ranks) {
		by[strings.Join([]string{targetStage, draftStage}, "+")] = tokens / (forward + step) * float64(n)
	} else {
		by[targetStage] = tokens / forward * w.speed(w.targets)
		by[draftStage] = tokens / step * w.speed(w.ranks)
	}
	for _, c := range by {
		if bound == 0 || c < bound {
			bound = c
		}
	}
	return by, bound
}

// speed is how many instances of normal speed some are worth, over the run.
func (w *world) speed(list []*instance) (sum float64) {
	for _, i := range list {
		down := 0.0
		for _, c := range w.s.Crashes {
			if c.Instance == i.name {
				down += min(c.Down, max(0, w.now-c.At))
			}
		}
		sum += (1 - down/w.now) * w.pace(i.name)
	}
	return sum
}

// pace is an instance's average speed over the run.
func (w *world) pace(name string) float64 {
	cuts := []float64{0, w.now}
	for _, v := range w.s.Slow {
		if v.Instance == name {
			cuts = append(cuts, min(v.From, w.now))
			if v.To > 0 {
				cuts = append(cuts, min(v.To, w.now))
			}
		}
	}
	slices.Sort(cuts)
	var work float64
	for k := range len(cuts) - 1 {
		if cuts[k+1] > cuts[k] {
			work += (cuts[k+1] - cuts[k]) / w.s.Factor(name, (cuts[k]+cuts[k+1])/2)
		}
	}
	return work / w.now
}
