package model

import "slices"

// pieces cuts a batch behind documents, so that each piece has at most so many slots, or a single document, and all have
// about the same. What a document contributes does not depend on the others. Without a limit the batch is the one piece.
func (b *Batch) pieces(size, limit int) []Batch {
	slots := size * len(b.Anchors)
	if limit <= 0 || slots <= limit {
		return []Batch{*b}
	}
	share := slots / ((slots + limit - 1) / limit)
	var out []Batch
	first, anchors, taken := 0, b.Anchors, 0 // of the piece: its first document, the anchors from it on, and how many are its own
	for doc := range len(b.Offsets) - 1 {
		n := 0
		for n < len(anchors)-taken && anchors[taken+n] < b.Offsets[doc+1] {
			n++
		}
		if taken > 0 && (size*(taken+n) > limit || size*taken >= share) {
			out = append(out, b.piece(first, doc, anchors[:taken]))
			first, anchors, taken = doc, anchors[taken:], 0
		}
		taken += n
	}
	return append(out, b.piece(first, len(b.Offsets)-1, anchors))
}

// piece is the documents from first up to end, with the anchors in them.
func (b *Batch) piece(first, end int, anchors []int32) Batch {
	lo, hi := b.Offsets[first], b.Offsets[end]
	moved := func(rows []int32) []int32 {
		rows = slices.Clone(rows)
		for i := range rows {
			rows[i] -= lo
		}
		return rows
	}
	return Batch{IDs: b.IDs[lo:hi], Mask: b.Mask[lo:hi], Offsets: moved(b.Offsets[first : end+1]), Anchors: moved(anchors),
		Hidden: b.Hidden.RowRange(int(lo), int(hi))}
}

// follow appends what the step on the next piece of a batch saw.
func (r *Result) follow(o Result) {
	r.Add(o)
	r.CE, r.Weight, r.Hit = append(r.CE, o.CE...), append(r.Weight, o.Weight...), append(r.Hit, o.Hit...)
	r.Accept = append(r.Accept, o.Accept...)
}
