package lineage

import "slices"

// Survivors returns the commits that hold, in window order: a later generation voids every window from its start on.
func Survivors(lines []Line) []Line {
	var kept []Line
	gen := uint32(0)
	for _, l := range lines {
		switch {
		case l.Open && l.Gen > gen:
			gen = l.Gen
			i, _ := slices.BinarySearchFunc(kept, l.Window, func(k Line, w uint32) int { return int(k.Window) - int(w) })
			kept = kept[:i]
		case !l.Open && l.Gen == gen:
			kept = append(kept, l)
		}
	}
	return kept
}

// Plan is what the report needs of the run's plan.
type Plan interface {
	Windows() int
	// Planned returns the batches of a window in plan order.
	Planned(window uint32) []uint32
	// Members returns a batch's epoch and its documents.
	Members(batch uint32) (epoch uint32, docs []int32)
	// Key returns the content key of a document.
	Key(doc int32) uint64
}

// Report counts document-epochs of the windows committed in the surviving lineage.
type Report struct {
	Batches    int `json:"batches"`
	Documents  int `json:"documents"`
	Missing    int `json:"missing"`    // planned up to the front, neither trained nor rejected
	Duplicates int `json:"duplicates"` // trained more than once
	Rejected   int `json:"rejected"`   // in batches given up as bad
	Skipped    int `json:"skipped"`    // in windows whose gradient was not finite
	Mismatched int `json:"mismatched"` // windows whose documents were not those of the plan
	Windows    int `json:"windows"`    // committed
	Planned    int `json:"planned"`    // windows of the whole run
}

// Count holds the lines against the plan.
func Count(lines []Line, p Plan) Report {
	r := Report{Planned: p.Windows()}
	type key struct {
		epoch uint32
		doc   int32
	}
	seen := map[key]int{}
	visit := func(batch uint32, f func(key)) {
		epoch, docs := p.Members(batch)
		for _, d := range docs {
			f(key{epoch, d})
		}
	}
	front := uint32(0)
	for _, l := range Survivors(lines) {
		r.Windows++
		r.Batches += len(l.Batches)
		front = max(front, l.Window+1)
		var keys uint64
		for _, b := range l.Batches {
			visit(b, func(k key) {
				seen[k]++
				keys += p.Key(k.doc)
				r.Documents++
				if l.Skipped {
					r.Skipped++
				}
			})
		}
		if keys != l.Keys {
			r.Mismatched++
		}
		for _, b := range l.Dead {
			visit(b, func(k key) { seen[k]++; r.Rejected++ })
		}
	}
	planned := map[key]bool{}
	for w := range front {
		for _, b := range p.Planned(w) {
			visit(b, func(k key) {
				planned[k] = true
				if seen[k] == 0 {
					r.Missing++
				}
			})
		}
	}
	for k, n := range seen {
		if n > 1 || !planned[k] {
			r.Duplicates++
		}
	}
	return r
}
