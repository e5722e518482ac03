package tokenizer

import (
	"errors"
	"fmt"

	"github.com/dlclark/regexp2/v2"
)

// splitter cuts text into pieces that merging never crosses. It appends the end of each piece, plus base, to ends; the
// last end is len(text)+base.
type splitter interface {
	split(ends []int, text string, base int) []int
}

// Patterns with a scanner of their own.
const (
	patternQwen   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternO200K  = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// patternByteLevel is the pattern that a ByteLevel pre-tokenizer brings along.
const patternByteLevel = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// newSplitters reads a pre-tokenizer: Split patterns, each on the pieces of the one before, ended by ByteLevel.
func newSplitters(c *component) (list []splitter, prefix bool, err error) {
	if c == nil {
		return nil, false, errors.New("there is no pre-tokenizer, want ByteLevel: only byte-level BPE is supported")
	}
	steps := []component{*c}
	if c.Type == "Sequence" {
		steps = c.PreTokenizers
	}
	for i, s := range steps {
		last := i == len(steps)-1
		pattern := ""
		switch {
		case s.Type == "ByteLevel" && last:
			if s.UseRegex == nil || *s.UseRegex {
				pattern = patternByteLevel
			}
			if s.AddPrefixSpace && len(list) > 0 {
				return nil, false, errors.New("pre-tokenizer ByteLevel with add_prefix_space after a Split is not supported")
			}
			prefix = s.AddPrefixSpace
		case s.Type == "Split" && !last:
			if s.Behavior != "Isolated" || s.Invert {
				return nil, false, fmt.Errorf("pre-tokenizer Split with behavior %q, invert %t is not supported, want Isolated", s.Behavior, s.Invert)
			}
			pattern = s.Pattern.Regex
			if pattern == "" {
				pattern = regexp2.Escape(s.Pattern.String)
			}
			if pattern == "" {
				return nil, false, errors.New("pre-tokenizer Split has no pattern")
			}
		default:
			return nil, false, fmt.Errorf("pre-tokenizer %q is not supported at place %d of %d, want Split patterns ended by ByteLevel", s.Type, i+1, len(steps))
		}
		if pattern == "" {
			continue
		}
		next, err := newSplitter(pattern)
		if err != nil {
			return nil, false, err
		}
		list = append(list, next)
	}
	if len(steps) == 0 {
		return nil, false, errors.New("the pre-tokenizer is an empty Sequence, want one ended by ByteLevel")
	}
	return list, prefix, nil
}

func newSplitter(pattern string) (splitter, error) {
	switch pattern {
	case patternQwen:
		return cl100k{classTable(), 1}, nil
	case patternLlama3:
		return cl100k{classTable(), 3}, nil
	case patternO200K:
		return o200k{classTable()}, nil
	}
	re, err := regexp2.Compile(pattern, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, fmt.Errorf("the pre-tokenizer's pattern %q is not supported: %w", pattern, err)
	}
	return backtracking{re}, nil
}

// backtracking splits by any pattern: each match is a piece, and so is each gap between matches.
type backtracking struct{ re *regexp2.Regexp }

func (b backtracking) split(ends []int, text string, base int) []int {
	done := 0
	// An error is a match that ran out of its stack or time, and both are unlimited.
	matches, _ := b.re.FindAllStringIndex(text, -1)
	for _, m := range matches {
		for _, end := range m {
			if end > done {
				ends = append(ends, base+end)
				done = end
			}
		}
	}
	if done < len(text) {
		ends = append(ends, base+len(text))
	}
	return ends
}
