package accept

import (
	"context"
	"fmt"
	"slices"

	"penstock/schema/store"
)

// Overlap counts the prompts of a file whose turn stands word for word in the documents of a store: on those a drafter that
// was trained on the store looks better than it is.
type Overlap struct {
	Prompts int `json:"prompts"`
	Known   int `json:"known"`   // of the file's
	Limit   int `json:"limit"`   // prompts from the front that an evaluation takes
	Flatter int `json:"flatter"` // of those
}

// turns is a tree of token ids: the paths from the root are the prompts' turns.
type turns struct {
	next map[int32]*turns
	ends []int // prompts whose turn ends here
}

func (t *turns) add(ids []int32, prompt int) {
	for _, id := range ids {
		if t.next == nil {
			t.next = map[int32]*turns{}
		}
		if t.next[id] == nil {
			t.next[id] = &turns{}
		}
		t = t.next[id]
	}
	t.ends = append(t.ends, prompt)
}

// FindOverlap looks for the prompts that o names in a store that was prepared for o.Target.
func FindOverlap(ctx context.Context, s *store.Store, o Options) (Overlap, error) {
	limit := o.Limit
	o.Limit = 0
	prompts, err := encode(o, false)
	if err != nil {
		return Overlap{}, err
	}
	if limit == 0 || limit > len(prompts) {
		limit = len(prompts)
	}
	var root turns
	var first []int32
	for i, p := range prompts {
		if len(p.ids) == 0 {
			return Overlap{}, fmt.Errorf("prompt %q has no tokens", p.id)
		}
		root.add(p.ids, i)
		if !slices.Contains(first, p.ids[0]) {
			first = append(first, p.ids[0])
		}
	}
	known := make([]bool, len(prompts))
	for d := range s.Len() {
		if err := ctx.Err(); err != nil {
			return Overlap{}, err
		}
		ids, _ := s.Doc(d)
		for at, id := range ids {
			if !slices.Contains(first, id) {
				continue
			}
			t := &root
			for _, id := range ids[at:] {
				if t = t.next[id]; t == nil {
					break
				}
				for _, i := range t.ends {
					known[i] = true
				}
			}
		}
	}
	out := Overlap{Prompts: len(prompts), Limit: limit}
	for i, k := range known {
		if k {
			out.Known++
			if i < limit {
				out.Flatter++
			}
		}
	}
	return out, nil
}

// Warning says what the overlap means, and is empty without one.
func (o Overlap) Warning() string {
	if o.Known == 0 {
		return ""
	}
	those := fmt.Sprintf("%d of the %d that are evaluated: acceptance on them flatters", o.Flatter, o.Limit)
	if o.Flatter == 0 {
		those = fmt.Sprintf("none of the %d that are evaluated", o.Limit)
	}
	return fmt.Sprintf("%d of the %d prompts in eval.prompts stand in the training data too, %s", o.Known, o.Prompts, those)
}
