// Package tokenizer encodes text as Hugging Face BPE tokenizers do, from their tokenizer.json: byte-level ones, and those of
// SentencePiece with byte fallback.
//
// The order is theirs: added tokens are cut out of the text, the rest is normalised (NFC), split into pieces by the
// pre-tokenizer's pattern, mapped to the byte alphabet and merged. Nothing is added around the text: no beginning-of-text
// token and no template of the file's post-processor.
package tokenizer

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// Tokenizer is one loaded tokenizer.json. It is immutable and safe for concurrent use.
type Tokenizer struct {
	vocab     map[string]int32 // token as the file spells it to id, added tokens included
	text      []string         // id to the bytes it stands for, "" where the id is not used
	raw       matcher          // added tokens looked for in the text as given
	cooked    matcher          // added tokens looked for in the normalised text
	specials  []string
	normalize func(string) string
	added     map[int32]bool
	spaces    *spaces // of a SentencePiece tokenizer, else nil
	prefix    bool    // a space goes before a stretch of text that starts without one
	splitters []splitter
	bpe       *bpe
	encoders  sync.Pool
}

// Load reads a tokenizer.json. The error says what in it is torn, missing or not supported, by name.
func Load(path string) (*Tokenizer, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer: %w", err)
	}
	t, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("load tokenizer %q: %w", path, err)
	}
	return t, nil
}

// Parse is Load on the file's content.
func Parse(data []byte) (*Tokenizer, error) {
	f, err := parseFile(data)
	if err != nil {
		return nil, err
	}
	return f.build()
}

// Encode returns the ids of text. Added tokens that the text spells out become their own ids. Text that is not UTF-8 is
// encoded byte for byte.
func (t *Tokenizer) Encode(text string) []int32 {
	return t.AppendEncode(nil, text)
}

// AppendEncode appends the ids of text to ids.
func (t *Tokenizer) AppendEncode(ids []int32, text string) []int32 {
	return t.encode(ids, text, begins)
}

// Continue appends the ids of text that goes on where the text of ids ends: as AppendEncode, without the space that some
// tokenizers put before a text.
func (t *Tokenizer) Continue(ids []int32, text string) []int32 {
	switch {
	case len(ids) == 0:
		return t.encode(ids, text, begins)
	case t.added[ids[len(ids)-1]]:
		return t.encode(ids, text, follows)
	}
	return t.encode(ids, text, goesOn)
}

func (t *Tokenizer) encode(ids []int32, text string, at place) []int32 {
	e := t.encoders.Get().(*encoder)
	defer t.encoders.Put(e)
	for text != "" {
		plain, id, rest := t.raw.cut(text)
		ids = e.section(ids, plain, at)
		at = follows
		if id >= 0 {
			ids = append(ids, id)
		}
		text = rest
	}
	return ids
}

// Decode returns the text of ids, added tokens spelled out. Ids outside the vocabulary stand for nothing. The result is
// not valid UTF-8 where ids cut a character in two.
func (t *Tokenizer) Decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if id >= 0 && int(id) < len(t.text) {
			b.WriteString(t.text[id])
		}
	}
	if s := t.spaces; s != nil && s.prefix {
		return strings.TrimPrefix(b.String(), " ")
	}
	return b.String()
}

// ID returns the id of a token spelled as in the file: in the byte alphabet, or an added token's content.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.vocab[token]
	return id, ok
}

// VocabSize is one more than the highest id: the rows that an embedding needs at least.
func (t *Tokenizer) VocabSize() int { return len(t.text) }

// Specials lists the contents of the added tokens that are marked special, in the file's order.
func (t *Tokenizer) Specials() []string { return append([]string(nil), t.specials...) }
