package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"pgregory.net/rapid"
)

// oracle is the pattern itself, run by a regular expression engine. The engine's own folding leaves out the long s.
func oracle(pattern string) backtracking {
	return backtracking{regexp2.MustCompile(strings.ReplaceAll(pattern, `(?i:'s|`, `(?i:'s|'ſ|`))}
}

// TestScanners compares each scanner with its pattern, on text made of the characters that the patterns tell apart.
func TestScanners(t *testing.T) {
	atoms := []string{"a", "B", "ǅ", "ʰ", "あ", "é", "\u0301", "\u0338", "'", "s", "S", "ſ", "'ll", "'RE", "'d", "v", "e", "1",
		"٣", "Ⅷ", "½", " ", "\t", "\n", "\r", "\u00a0", "\u2003", "\u3000", "\u0085", "\u200b", ".", "/", "_", "—", "😀", "각",
		"𝔸", "𐐀", "İ", "\u0000", "\u007f"}
	text := rapid.Map(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(atoms), rapid.StringN(0, 3, -1))), func(s []string) string {
		return strings.Join(s, "")
	})
	for _, pattern := range []string{patternQwen, patternLlama3, patternO200K} {
		scan, err := newSplitter(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if _, slow := scan.(backtracking); slow {
			t.Fatalf("no scanner for %q", pattern)
		}
		want := oracle(pattern)
		rapid.Check(t, func(t *rapid.T) {
			s := text.Draw(t, "text")
			if got, want := scan.split(nil, s, 7), want.split(nil, s, 7); !slices.Equal(got, want) {
				t.Fatalf("split %q at %v, want %v by %q", s, got, want, pattern)
			}
		})
	}
}

func FuzzScanners(f *testing.F) {
	f.Add("It's \n\n  ΑΒΓ’s 12345 a\u0301BC//\r\n")
	f.Add("\xff\xfe a\xf0")
	var pairs [][2]splitter
	for _, pattern := range []string{patternQwen, patternLlama3, patternO200K} {
		scan, err := newSplitter(pattern)
		if err != nil {
			f.Fatal(err)
		}
		pairs = append(pairs, [2]splitter{scan, oracle(pattern)})
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range pairs {
			if got, want := p[0].split(nil, s, 0), p[1].split(nil, s, 0); !slices.Equal(got, want) {
				t.Fatalf("%T splits %q at %v, want %v", p[0], s, got, want)
			}
		}
	})
}
