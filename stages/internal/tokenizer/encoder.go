package tokenizer

import "strings"

const (
	cachePieces = 1 << 15 // pieces remembered by one encoder
	cacheBytes  = 48      // longest piece remembered
)

// place is where a stretch of text stands.
type place int

const (
	begins  place = iota // at the beginning of the text
	follows              // after an added token
	goesOn               // after other text, which was encoded before
)

// encoder is the memory of one Encode at a time: scratch space, and the pieces it met before.
type encoder struct {
	t     *Tokenizer
	cache map[string][]int32
	ends  []int // piece ends of the section under way
	more  []int
	work  work
}

// section appends the ids of a stretch of text that holds no added token of the raw kind. It begins the text, or follows
// an added token, or goes on.
func (e *encoder) section(ids []int32, text string, at place) []int32 {
	if text == "" {
		return ids
	}
	text = e.t.normalize(text)
	if s := e.t.spaces; s != nil && at != goesOn {
		text = s.apply(text, at == begins)
	} else if s != nil {
		text = (&spaces{}).apply(text, false)
	}
	for text != "" {
		plain, id, rest := e.t.cooked.cut(text)
		ids = e.words(ids, plain, at)
		at = follows
		if id >= 0 {
			ids = append(ids, id)
		}
		text = rest
	}
	return ids
}

// words appends the ids of normalised text without added tokens.
func (e *encoder) words(ids []int32, text string, at place) []int32 {
	if text == "" {
		return ids
	}
	if e.t.prefix && text[0] != ' ' && at != goesOn {
		text = " " + text
	}
	e.ends = append(e.ends[:0], len(text))
	for _, s := range e.t.splitters {
		e.more = e.more[:0]
		start := 0
		for _, end := range e.ends {
			e.more = s.split(e.more, text[start:end], start)
			start = end
		}
		e.ends, e.more = e.more, e.ends
	}
	start := 0
	for _, end := range e.ends {
		ids = e.piece(ids, text[start:end])
		start = end
	}
	return ids
}

// piece appends the ids of one piece.
func (e *encoder) piece(ids []int32, piece string) []int32 {
	if len(piece) > cacheBytes {
		return e.t.bpe.append(ids, piece, &e.work)
	}
	if known, ok := e.cache[piece]; ok {
		return append(ids, known...)
	}
	from := len(ids)
	ids = e.t.bpe.append(ids, piece, &e.work)
	if len(e.cache) >= cachePieces {
		clear(e.cache)
	}
	e.cache[strings.Clone(piece)] = append([]int32(nil), ids[from:]...)
	return ids
}
