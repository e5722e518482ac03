package worker

import (
	"cmp"
	"slices"

	"penstock/stages/internal/model"
	"penstock/stages/internal/plan"
)

// size is what a batch's memory grows with.
type size struct{ tokens, anchors, batch int }

// Shapes returns the shapes of the run's largest batches: every other batch has no more tokens and no more anchors than one of
// them.
func (r *RunPlan) Shapes() []model.Shape {
	anchors := r.anchors()
	var sizes []size
	for w := range r.Plan.Windows() {
		for _, b := range r.Plan.Window(w) {
			s := size{tokens: b.Tokens, batch: b.Index}
			for _, d := range b.Docs {
				s.anchors += anchors[d]
			}
			sizes = append(sizes, s)
		}
	}
	var shapes []model.Shape
	for _, s := range largest(sizes) {
		var shape model.Shape
		for _, d := range r.Plan.Batch(s.batch).Docs {
			shape.Lengths = append(shape.Lengths, r.Store.Length(int(d)))
			shape.Anchors = append(shape.Anchors, anchors[d])
		}
		shapes = append(shapes, shape)
	}
	return shapes
}

// anchors counts, for each document, the anchors that are drawn in an epoch.
func (r *RunPlan) anchors() []int {
	counts := make([]int, r.Store.Len())
	var mask []uint8
	for i := range counts {
		_, m := r.Store.Doc(i)
		mask = m.AppendTo(mask[:0])
		counts[i] = min(r.most, plan.CountValid(mask))
	}
	return counts
}

// largest returns the sizes that no other one reaches in both, the most tokens first.
func largest(sizes []size) (front []size) {
	slices.SortFunc(sizes, func(a, b size) int {
		return cmp.Or(cmp.Compare(b.tokens, a.tokens), cmp.Compare(b.anchors, a.anchors), cmp.Compare(a.batch, b.batch))
	})
	most := -1
	for _, s := range sizes {
		if s.anchors > most {
			front, most = append(front, s), s.anchors
		}
	}
	return front
}
