package tokenizer

import (
	"fmt"
	"math"
)

// bpe merges the bytes of a piece into tokens.
type bpe struct {
	byteID [256]int32     // id of each byte's token, or dropped
	unk    int32          // id for bytes without a token, or dropped
	fuse   bool           // neighbouring unknown bytes become one token
	chars  map[rune]int32 // of a model with byte fallback: ids of characters; nil for a byte-level one
	merges map[uint64]merge
	whole  map[string]int32 // pieces taken as they are when the vocabulary has them; nil to merge always
}

// merge is the result of joining two neighbouring tokens; merges of lower rank come first.
type merge struct{ rank, id int32 }

const (
	dropped = int32(-1)
	noRank  = int32(math.MaxInt32)
)

// pair is the key of two neighbouring tokens.
func pair(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

func newBPE(m *bpeModel) (*bpe, error) {
	pairs, err := m.merges()
	if err != nil {
		return nil, err
	}
	b := &bpe{unk: dropped, fuse: m.FuseUnknown, merges: make(map[uint64]merge, len(pairs))}
	if m.Unknown != nil {
		if id, ok := m.Vocab[*m.Unknown]; ok {
			b.unk = id
		}
	}
	if m.ByteFallback {
		if err := b.characters(m); err != nil {
			return nil, err
		}
	} else {
		for i := range b.byteID {
			b.byteID[i] = b.unk
			if id, ok := m.Vocab[string(byteRune[i])]; ok {
				b.byteID[i] = id
			}
		}
	}
	for rank, p := range pairs {
		var ids [3]int32
		for i, token := range []string{p[0], p[1], p[0] + p[1]} {
			id, ok := m.Vocab[token]
			if !ok {
				return nil, fmt.Errorf("merge %d (%q, %q) needs token %q, which the vocabulary lacks", rank, p[0], p[1], token)
			}
			ids[i] = id
		}
		b.merges[pair(ids[0], ids[1])] = merge{int32(rank), ids[2]}
	}
	if m.IgnoreMerges {
		b.whole = make(map[string]int32, len(m.Vocab))
		for token, id := range m.Vocab {
			if m.ByteFallback {
				b.whole[token] = id
			} else {
				b.whole[fromAlphabet(token)] = id
			}
		}
	}
	return b, nil
}

// symbol is one token of a piece under way, linked to its neighbours by index.
type symbol struct {
	id         int32
	rank       int32 // of the merge with the next symbol, noRank if there is none or the symbol is gone
	into       int32 // the token that merge gives
	prev, next int32
}

// work is the reusable memory of one merging at a time.
type work struct {
	symbols []symbol
	queue   minHeap // rank<<32 | index, stale where the symbol's rank has changed since
}

// append appends the tokens of one piece to ids: the merge of lowest rank first, the leftmost of equals, until none is left.
func (b *bpe) append(ids []int32, piece string, w *work) []int32 {
	if id, ok := b.whole[piece]; ok {
		return append(ids, id)
	}
	s := w.symbols[:0]
	if b.chars != nil {
		s = b.start(s, piece)
		piece = ""
	}
	for i := range len(piece) {
		id := b.byteID[piece[i]]
		if id == dropped {
			continue
		}
		if id == b.unk && b.fuse && len(s) > 0 && s[len(s)-1].id == id {
			continue
		}
		n := int32(len(s))
		s = append(s, symbol{id: id, prev: n - 1, next: n + 1})
	}
	w.symbols, w.queue = s, w.queue[:0]
	if len(s) == 0 {
		return ids
	}
	s[len(s)-1].next = -1
	for i := range s {
		b.rank(w, int32(i))
	}
	for len(w.queue) > 0 {
		top := w.queue.pop()
		i := int32(uint32(top))
		left := &s[i]
		if left.rank != int32(top>>32) {
			continue
		}
		right := &s[left.next]
		left.id, left.next = left.into, right.next
		right.rank = noRank
		if left.next >= 0 {
			s[left.next].prev = i
		}
		b.rank(w, i)
		if left.prev >= 0 {
			b.rank(w, left.prev)
		}
	}
	for i := int32(0); i >= 0; i = s[i].next {
		ids = append(ids, s[i].id)
	}
	return ids
}

// rank looks up the merge of symbol i with the next one and queues it.
func (b *bpe) rank(w *work, i int32) {
	s := &w.symbols[i]
	s.rank = noRank
	if s.next < 0 {
		return
	}
	if m, ok := b.merges[pair(s.id, w.symbols[s.next].id)]; ok {
		s.rank, s.into = m.rank, m.id
		w.queue.push(uint64(m.rank)<<32 | uint64(i))
	}
}
