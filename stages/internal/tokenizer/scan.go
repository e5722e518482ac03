package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what the patterns ask of a character.
type class uint8

const (
	letter  class = 1 << iota // \p{L}
	number                    // \p{N}
	space                     // \s
	newline                   // [\r\n]
	upper                     // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lower                     // [\p{Ll}\p{Lm}\p{Lo}\p{M}]

	word = letter | number
)

func classOf(r rune) (c class) {
	switch {
	case unicode.Is(unicode.Ll, r):
		return letter | lower
	case unicode.In(r, unicode.Lu, unicode.Lt):
		return letter | upper
	case unicode.IsLetter(r):
		return letter | upper | lower
	case unicode.IsMark(r):
		return upper | lower
	case unicode.IsNumber(r):
		return number
	case r == '\r' || r == '\n':
		return space | newline
	case unicode.IsSpace(r):
		return space
	}
	return 0
}

// classTable holds the classes of the first plane.
var classTable = sync.OnceValue(func() *[0x10000]class {
	t := new([0x10000]class)
	for r := range t {
		t[r] = classOf(rune(r))
	}
	return t
})

// scanner reads characters of a text by class.
type scanner struct {
	table *[0x10000]class
	text  string
}

// at returns the class and the size in bytes of the character at i; the size is 0 at the end.
func (s *scanner) at(i int) (class, int) {
	if i >= len(s.text) {
		return 0, 0
	}
	if b := s.text[i]; b < utf8.RuneSelf {
		return s.table[b], 1
	}
	r, n := utf8.DecodeRuneInString(s.text[i:])
	if r < 0x10000 {
		return s.table[r], n
	}
	return classOf(r), n
}

// run returns the end of the characters from i on that have any class of want.
func (s *scanner) run(i int, want class) int {
	for {
		c, n := s.at(i)
		if n == 0 || c&want == 0 {
			return i
		}
		i += n
	}
}

// digits matches \p{N}{1,most} at i: its end, or i.
func (s *scanner) digits(i, most int) int {
	for range most {
		c, n := s.at(i)
		if c&number == 0 {
			break
		}
		i += n
	}
	return i
}

// symbols matches ` ?[^\s\p{L}\p{N}]+[\r\n]*` at i, with slashes among the newlines if asked: its end, or i.
func (s *scanner) symbols(i int, slashes bool) int {
	start := i
	if i < len(s.text) && s.text[i] == ' ' {
		i++
	}
	first := i
	for {
		c, n := s.at(i)
		if n == 0 || c&(space|word) != 0 {
			break
		}
		i += n
	}
	if i == first {
		return start
	}
	for i < len(s.text) && (s.text[i] == '\r' || s.text[i] == '\n' || slashes && s.text[i] == '/') {
		i++
	}
	return i
}

// blanks matches `\s*[\r\n]+|\s+(?!\S)|\s+` at i, where white space starts: up to the last line end of the run, else all
// of it but the character that leads into the next word.
func (s *scanner) blanks(i int) int {
	start, last, lineEnd := i, i, -1
	for {
		c, n := s.at(i)
		if n == 0 {
			break
		}
		if c&space == 0 {
			if lineEnd < 0 && last > start {
				return last
			}
			break
		}
		last, i = i, i+n
		if c&newline != 0 {
			lineEnd = i
		}
	}
	if lineEnd >= 0 {
		return lineEnd
	}
	return i
}

// contraction matches (?i:'s|'t|'re|'ve|'m|'ll|'d) at i: its end, or i.
func (s *scanner) contraction(i int) int {
	t := s.text[i:]
	if len(t) < 2 || t[0] != '\'' {
		return i
	}
	switch t[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return i + 2
	}
	if len(t) < 3 {
		return i
	}
	switch [2]byte{t[1] | 0x20, t[2] | 0x20} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return i + 3
	}
	if t[1:3] == "ſ" { // the long s folds to s
		return i + 3
	}
	return i
}

// cl100k scans the pattern of Qwen (numbers of one digit) and Llama 3 (up to three).
type cl100k struct {
	table  *[0x10000]class
	digits int
}

func (p cl100k) split(ends []int, text string, base int) []int {
	s := scanner{p.table, text}
	for i := 0; i < len(text); {
		i = p.next(&s, i)
		ends = append(ends, base+i)
	}
	return ends
}

// next returns the end of the piece at i.
func (p cl100k) next(s *scanner, i int) int {
	if end := s.contraction(i); end > i {
		return end
	}
	c, n := s.at(i)
	switch {
	case c&letter != 0:
		return s.run(i+n, letter)
	case c&number != 0:
		return s.digits(i, p.digits)
	case c&newline == 0:
		if end := s.run(i+n, letter); end > i+n {
			return end
		}
	}
	if end := s.symbols(i, false); end > i {
		return end
	}
	return s.blanks(i)
}
