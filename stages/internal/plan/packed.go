package plan

import "penstock/schema/store"

// Packed is the documents of one batch, one behind the other, without padding.
type Packed struct {
	IDs     []int32  // [tokens]
	Mask    []uint8  // [tokens] 1 where supervised
	Offsets []int32  // [documents+1] document i is IDs[Offsets[i]:Offsets[i+1]]
	Keys    []uint64 // [documents] what the documents' anchors and noise are drawn by
}

// Load reads the documents of a batch from the store that the plan was made for.
func Load(s *store.Store, b BatchPlan) Packed {
	p := Packed{
		IDs:     make([]int32, 0, b.Tokens),
		Mask:    make([]uint8, 0, b.Tokens),
		Offsets: make([]int32, 1, len(b.Docs)+1),
		Keys:    make([]uint64, 0, len(b.Docs)),
	}
	for _, d := range b.Docs {
		ids, mask := s.Doc(int(d))
		p.IDs = append(p.IDs, ids...)
		p.Mask = mask.AppendTo(p.Mask)
		p.Offsets = append(p.Offsets, int32(len(p.IDs)))
		p.Keys = append(p.Keys, s.Key(int(d)))
	}
	return p
}
