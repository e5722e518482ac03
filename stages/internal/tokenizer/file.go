package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxID bounds ids, so that a wrong file cannot ask for unbounded memory.
const maxID = 1 << 22

// file is the part of tokenizer.json that encoding depends on.
type file struct {
	Added        []addedToken `json:"added_tokens"`
	Normalizer   *component   `json:"normalizer"`
	PreTokenizer *component   `json:"pre_tokenizer"`
	Model        *bpeModel    `json:"model"`
}

// component is a normalizer or a pre-tokenizer; each type uses some of the fields.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Pattern       struct {
		Regex  string `json:"Regex"`
		String string `json:"String"`
	} `json:"pattern"`
	Content        string `json:"content"`
	Prepend        string `json:"prepend"`
	Replacement    string `json:"replacement"`
	Scheme         string `json:"prepend_scheme"`
	Splits         *bool  `json:"split"` // absent means true
	Behavior       string `json:"behavior"`
	Invert         bool   `json:"invert"`
	AddPrefixSpace bool   `json:"add_prefix_space"`
	UseRegex       *bool  `json:"use_regex"` // absent means true
}

// bpeModel is the model of a BPE tokenizer, byte-level or with byte fallback.
type bpeModel struct {
	Type         string           `json:"type"`
	Vocab        map[string]int32 `json:"vocab"`
	Merges       json.RawMessage  `json:"merges"`
	IgnoreMerges bool             `json:"ignore_merges"`
	Unknown      *string          `json:"unk_token"`
	FuseUnknown  bool             `json:"fuse_unk"`
	ByteFallback bool             `json:"byte_fallback"`
	Dropout      *float64         `json:"dropout"`
	Prefix       string           `json:"continuing_subword_prefix"`
	Suffix       string           `json:"end_of_word_suffix"`
}

// merges decodes the pairs of tokens to merge, in order: each is written ["a","b"] or "a b".
func (m *bpeModel) merges() ([][2]string, error) {
	if len(m.Merges) == 0 {
		return nil, nil
	}
	var pairs [][]string
	if json.Unmarshal(m.Merges, &pairs) != nil {
		var lines []string
		if err := json.Unmarshal(m.Merges, &lines); err != nil {
			return nil, fmt.Errorf("the model's merges are neither pairs nor lines: %w", err)
		}
		pairs = make([][]string, len(lines))
		for i, line := range lines {
			pairs[i] = strings.Split(line, " ")
		}
	}
	out := make([][2]string, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 {
			return nil, fmt.Errorf("merge %d is %q, want two tokens", i, p)
		}
		out[i] = [2]string(p)
	}
	return out, nil
}

// parseFile decodes tokenizer.json and refuses what would encode differently here.
func parseFile(data []byte) (*file, error) {
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("torn, or not JSON, at byte %d of %d: %w", syntax.Offset, len(data), err)
		}
		return nil, fmt.Errorf("not a tokenizer.json: %w", err)
	}
	m := f.Model
	switch {
	case m == nil:
		return nil, errors.New("not a tokenizer.json: it has no model")
	case m.Type != "BPE" && !(m.Type == "" && len(m.Merges) > 0):
		return nil, fmt.Errorf("model type %q is not supported, want BPE", m.Type)
	case m.Prefix != "" || m.Suffix != "":
		return nil, fmt.Errorf("a BPE model with continuing_subword_prefix %q or end_of_word_suffix %q is not supported", m.Prefix, m.Suffix)
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, fmt.Errorf("a BPE model with dropout %g is not supported", *m.Dropout)
	case len(m.Vocab) == 0:
		return nil, errors.New("the model's vocabulary is empty")
	}
	for token, id := range m.Vocab {
		if id < 0 || id >= maxID {
			return nil, fmt.Errorf("id %d of token %q is outside 0..%d", id, token, maxID-1)
		}
	}
	for _, a := range f.Added {
		if a.ID < 0 || a.ID >= maxID {
			return nil, fmt.Errorf("id %d of added token %q is outside 0..%d", a.ID, a.Content, maxID-1)
		}
	}
	return &f, nil
}

// build turns the decoded file into a tokenizer.
func (f *file) build() (*Tokenizer, error) {
	t := &Tokenizer{vocab: make(map[string]int32, len(f.Model.Vocab)+len(f.Added)), added: map[int32]bool{}}
	var err error
	if f.Model.ByteFallback {
		t.normalize = func(s string) string { return s }
		t.spaces, err = f.readSpaces()
		t.splitters = f.Model.wordSplitter()
	} else {
		if t.normalize, err = newNormalizer(f.Normalizer); err == nil {
			t.splitters, t.prefix, err = newSplitters(f.PreTokenizer)
		}
	}
	if err != nil {
		return nil, err
	}
	if t.bpe, err = newBPE(f.Model); err != nil {
		return nil, err
	}
	for token, id := range f.Model.Vocab {
		t.name(id, token)
	}
	for i := range f.Added {
		a := &f.Added[i]
		if id, ok := f.Model.Vocab[a.Content]; ok {
			a.ID = id
		}
		if a.Content == "" {
			continue
		}
		t.name(a.ID, a.Content)
		t.text[a.ID] = a.Content
		t.added[a.ID] = true
		if a.Special {
			t.specials = append(t.specials, a.Content)
		}
		if a.Normalized {
			c := *a
			c.Content = t.normalize(c.Content)
			if t.spaces != nil {
				c.Content = t.spaces.apply(c.Content, true)
			}
			t.cooked.add(c)
		} else {
			t.raw.add(*a)
		}
	}
	t.encoders.New = func() any { return &encoder{t: t, cache: map[string][]int32{}} }
	return t, nil
}

// name gives id its spelling and its text.
func (t *Tokenizer) name(id int32, token string) {
	t.vocab[token] = id
	for int(id) >= len(t.text) {
		t.text = append(t.text, make([]string, int(id)+1-len(t.text))...)
	}
	if t.spaces != nil {
		t.text[id] = fromMetaspace(token)
	} else {
		t.text[id] = fromAlphabet(token)
	}
}
