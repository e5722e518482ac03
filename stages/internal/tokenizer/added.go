package tokenizer

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedToken is a token that is cut out of the text before anything else sees it.
type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"` // only where no word character touches it
	LStrip     bool   `json:"lstrip"`      // takes the white space before it
	RStrip     bool   `json:"rstrip"`      // takes the white space after it
	Normalized bool   `json:"normalized"`  // looked for in the normalised text
	Special    bool   `json:"special"`
}

// matcher finds added tokens: the leftmost first, the longest of those that start there.
type matcher struct {
	byFirst [256][]addedToken // by first byte, longest first
	any     bool
}

func (m *matcher) add(a addedToken) {
	if a.Content == "" {
		return
	}
	list := append(m.byFirst[a.Content[0]], a)
	sort.SliceStable(list, func(i, j int) bool { return len(list[i].Content) > len(list[j].Content) })
	m.byFirst[a.Content[0]], m.any = list, true
}

// cut splits text at the first added token: the text before it, its id, and the text after it. The id is negative and
// the rest empty where there is none.
func (m *matcher) cut(text string) (plain string, id int32, rest string) {
	if !m.any {
		return text, -1, ""
	}
	for i := 0; i < len(text); i++ {
		a := m.at(text[i:])
		if a == nil {
			continue
		}
		start, end := i, i+len(a.Content)
		if a.SingleWord && (endsInWord(text[:start]) || startsWithWord(text[end:])) {
			i = end - 1
			continue
		}
		if a.LStrip {
			start = len(strings.TrimRightFunc(text[:start], unicode.IsSpace))
		}
		rest = text[end:]
		if a.RStrip {
			rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		}
		return text[:start], a.ID, rest
	}
	return text, -1, ""
}

// at returns the longest added token that text starts with, or nil.
func (m *matcher) at(text string) *addedToken {
	list := m.byFirst[text[0]]
	for i := range list {
		if strings.HasPrefix(text, list[i].Content) {
			return &list[i]
		}
	}
	return nil
}

func endsInWord(s string) bool {
	r, n := utf8.DecodeLastRuneInString(s)
	return n > 0 && isWord(r)
}

func startsWithWord(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	return n > 0 && isWord(r)
}

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.In(r, unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control)
}
