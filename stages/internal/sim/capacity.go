package sim

import (
	"slices"
	"strings"
)

// capacity is how many tokens a second each stage would have had committed in the steady time if it had never waited, and the
// least of them. Stages that share devices count together, and each by itself.
//
// It counts the work that was done in that time, as long as it took on an instance of normal speed: what is committed there
// may have been worked on before, and a stage that ends with less in stock than it began with does less than was committed.
// By the work of what was committed the stage could beat its own capacity.
func (w *world) capacity(from, to mark) (by map[string]float64, bound float64) {
	tokens, span := float64(to.tokens-from.tokens), to.at-from.at
	var forward, step, pack float64
	for _, b := range w.batches {
		forward += b.forward * w.s.ForwardNoise(b.Index, b.attempt) * inside(b.at.taken, b.at.captured, from.at, to.at)
		step += b.step * w.s.StepNoise(b.Index, b.attempt) * inside(b.at.fetched, b.at.stepped, from.at, to.at)
		pack += (b.at.packed - b.at.pulled) * inside(b.at.pulled, b.at.packed, from.at, to.at)
	}
	for _, c := range w.commits {
		if from.at < c.at && c.at <= to.at {
			step += w.s.Draft.Optimizer * float64(len(w.ranks))
		}
	}
	by = map[string]float64{}
	if forward > 0 {
		by[targetStage] = tokens / forward * w.speed(w.targets, from.at, to.at)
	}
	if step > 0 {
		by[draftStage] = tokens / step * w.speed(w.ranks, from.at, to.at)
	}
	if pack > 0 {
		by[packStage] = tokens / pack * float64(len(w.packers))
	}
	if w.s.Shares() {
		busy := 1 - w.deviceIdle(from.at, to.at)
		by[strings.Join([]string{targetStage, draftStage}, "+")] = tokens / span / busy
	}
	for _, c := range by {
		if bound == 0 || c < bound {
			bound = c
		}
	}
	return by, bound
}

// inside is the share of the time from lo to hi that lies between two others.
func inside(lo, hi, from, to float64) float64 {
	if hi <= lo {
		return 0
	}
	return span{from: lo, to: hi}.within(from, to) / (hi - lo)
}

// speed is how many instances of normal speed some are worth, between two times.
func (w *world) speed(list []*instance, from, to float64) (sum float64) {
	for _, i := range list {
		down := 0.0
		for _, c := range w.s.Crashes {
			if c.Instance == i.name {
				down += span{from: c.At, to: c.At + c.Down}.within(from, to)
			}
		}
		sum += (1 - down/(to-from)) * w.pace(i.name, from, to)
	}
	return sum
}

// pace is an instance's average speed between two times.
func (w *world) pace(name string, from, to float64) float64 {
	cuts := []float64{from, to}
	for _, v := range w.s.Slow {
		if v.Instance == name {
			cuts = append(cuts, max(from, min(v.From, to)))
			if v.To > 0 {
				cuts = append(cuts, max(from, min(v.To, to)))
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
	return work / (to - from)
}
