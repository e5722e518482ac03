package tokenizer

import (
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// newNormalizer reads a normalizer: none, NFC, or a sequence of those.
func newNormalizer(c *component) (func(string) string, error) {
	same := func(s string) string { return s }
	if c == nil {
		return same, nil
	}
	switch c.Type {
	case "NFC":
		return nfc, nil
	case "Sequence":
		out := same
		for i := range c.Normalizers {
			next, err := newNormalizer(&c.Normalizers[i])
			if err != nil {
				return nil, err
			}
			before := out
			out = func(s string) string { return next(before(s)) }
		}
		return out, nil
	}
	return nil, fmt.Errorf("normalizer %q is not supported, want NFC or none", c.Type)
}

// joiner is the combining grapheme joiner, which norm puts into runs of more than 30 combining marks.
const joiner = "\u034f"

// nfc returns text in normalisation form C as Unicode 9 defines it, whose tables the tokenizers' own library has.
func nfc(text string) string {
	if strings.IndexFunc(text, isLater) >= 0 {
		return compose(order(decompose(text)))
	}
	if norm.NFC.IsNormalString(text) {
		return text
	}
	out := norm.NFC.String(text)
	if strings.Count(out, joiner) == strings.Count(text, joiner) {
		return out
	}
	return compose(order(decompose(text)))
}

// mark is one character of decomposed text.
type mark struct {
	text  string // a character, or bytes that are none
	class uint8  // canonical combining class
}

func decompose(text string) (out []mark) {
	for i := 0; i < len(text); {
		p := norm.NFD.PropertiesString(text[i:])
		n := max(p.Size(), 1)
		full := text[i : i+n]
		if d := p.Decomposition(); d != nil {
			full = string(d)
		}
		for full != "" {
			r, n := utf8.DecodeRuneInString(full)
			class := norm.NFD.PropertiesString(full[:n]).CCC()
			if isLater(r) {
				class = 0
			}
			out = append(out, mark{full[:n], class})
			full = full[n:]
		}
		i += n
	}
	return out
}

// order sorts each run of combining marks by class, keeping equals in place.
func order(m []mark) []mark {
	for i := 0; i < len(m); i++ {
		start := i
		for i < len(m) && m[i].class != 0 {
			i++
		}
		run := m[start:i]
		sort.SliceStable(run, func(a, b int) bool { return run[a].class < run[b].class })
	}
	return m
}

// compose joins each character with the last starter before it where the two have a composite and nothing between blocks.
func compose(m []mark) string {
	var b strings.Builder
	starter, last := -1, uint8(0)
	for i := range m {
		if starter >= 0 && (last < m[i].class || last == 0) {
			if both := norm.NFC.String(m[starter].text + m[i].text); utf8.RuneCountInString(both) == 1 {
				m[starter].text, m[i].text = both, ""
				continue
			}
		}
		if m[i].class == 0 {
			starter = i
		}
		last = m[i].class
	}
	for _, c := range m {
		b.WriteString(c.text)
	}
	return b.String()
}
