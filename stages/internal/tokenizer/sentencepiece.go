package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// metaspace is what SentencePiece writes for a space.
const metaspace = "▁"

// spaces is how a SentencePiece tokenizer treats spaces: each becomes a metaspace, and one more may go before a stretch
// of text.
type spaces struct {
	prefix  bool // one goes before
	first   bool // only before the text as a whole
	missing bool // only where the stretch does not begin with one
}

// apply spells the spaces of a stretch of text. whole tells whether it begins the text.
func (s *spaces) apply(text string, whole bool) string {
	text = strings.ReplaceAll(text, " ", metaspace)
	if s.prefix && (whole || !s.first) && !(s.missing && strings.HasPrefix(text, metaspace)) {
		return metaspace + text
	}
	return text
}

// readSpaces reads normalizer and pre-tokenizer of a model with byte fallback: a normalizer that replaces spaces, after
// one that prepends if there is one, or a Metaspace that does not split.
func (f *file) readSpaces() (*spaces, error) {
	var steps []component
	if n := f.Normalizer; n != nil {
		steps = []component{*n}
		if n.Type == "Sequence" {
			steps = n.Normalizers
		}
	}
	s, replaced := &spaces{}, false
	for i, n := range steps {
		switch {
		case n.Type == "Prepend" && i == 0 && n.Prepend == metaspace:
			s.prefix = true
		case n.Type == "Replace" && n.Pattern.String == " " && n.Content == metaspace:
			replaced = true
		default:
			return nil, fmt.Errorf("normalizer %q is not supported beside byte_fallback, want Prepend and Replace with %q", n.Type, metaspace)
		}
	}
	switch p := f.PreTokenizer; {
	case p == nil && replaced:
		return s, nil
	case p != nil && len(steps) == 0 && p.Type == "Metaspace" && p.Replacement == metaspace && p.Splits != nil && !*p.Splits:
		s.missing = true
		switch p.Scheme {
		case "always", "first":
			s.prefix, s.first = true, p.Scheme == "first"
		case "never":
		default:
			return nil, fmt.Errorf("pre-tokenizer Metaspace with prepend_scheme %q is not supported", p.Scheme)
		}
		return s, nil
	}
	return nil, fmt.Errorf("a model with byte_fallback is supported with spaces replaced by %q in the normalizer or in a Metaspace that does not split", metaspace)
}

// byteToken is the token of a byte that no character's token covers.
func byteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// characters sets a model up to start from characters, and from bytes where a character has no token.
func (b *bpe) characters(m *bpeModel) error {
	b.chars = map[rune]int32{}
	for token, id := range m.Vocab {
		if r, n := utf8.DecodeRuneInString(token); n == len(token) && n > 0 {
			b.chars[r] = id
		}
	}
	for i := range b.byteID {
		id, ok := m.Vocab[byteToken(byte(i))]
		if !ok {
			return fmt.Errorf("a model with byte_fallback needs token %q, which the vocabulary lacks", byteToken(byte(i)))
		}
		b.byteID[i] = id
	}
	return nil
}

// start appends the symbols that the merging of a piece starts from.
func (b *bpe) start(s []symbol, piece string) []symbol {
	add := func(id int32) {
		n := int32(len(s))
		s = append(s, symbol{id: id, prev: n - 1, next: n + 1})
	}
	for i, r := range piece {
		if id, ok := b.chars[r]; ok {
			add(id)
			continue
		}
		_, n := utf8.DecodeRuneInString(piece[i:])
		for _, c := range []byte(piece[i : i+n]) {
			add(b.byteID[c])
		}
	}
	return s
}

// wordStarts splits before each run of metaspaces that follows something else.
type wordStarts struct{}

func (wordStarts) split(ends []int, text string, base int) []int {
	for i := 1; i < len(text); i++ {
		if text[i] == metaspace[0] && strings.HasPrefix(text[i:], metaspace) && !strings.HasSuffix(text[:i], metaspace) {
			ends = append(ends, base+i)
		}
	}
	return append(ends, base+len(text))
}

// wordSplitter returns a splitter where no token reaches from one word into the next, so that words merge apart.
func (m *bpeModel) wordSplitter() []splitter {
	for token := range m.Vocab {
		if strings.Contains(strings.TrimLeft(token, metaspace), metaspace) {
			return nil
		}
	}
	return []splitter{wordStarts{}}
}

// fromMetaspace returns the text that a SentencePiece token stands for.
func fromMetaspace(token string) string {
	var c byte
	if n, err := fmt.Sscanf(token, "<0x%02X>", &c); n == 1 && err == nil && token == byteToken(c) {
		return string([]byte{c})
	}
	return strings.ReplaceAll(token, metaspace, " ")
}
