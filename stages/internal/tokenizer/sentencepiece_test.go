package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// sentencePiece is a small tokenizer with byte fallback whose spaces the normalizer, or a Metaspace, replaces.
func sentencePiece(tb testing.TB, form string) *Tokenizer {
	tb.Helper()
	data, err := os.ReadFile("testdata/sentencepiece/prepend.json")
	if err != nil {
		tb.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		tb.Fatal(err)
	}
	if form != "prepend" {
		m["normalizer"] = nil
		m["pre_tokenizer"] = map[string]any{"type": "Metaspace", "replacement": metaspace, "prepend_scheme": form, "split": false}
	}
	if data, err = json.Marshal(m); err != nil {
		tb.Fatal(err)
	}
	t, err := Parse(data)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// TestSentencePiece holds both forms to what the Rust implementation gives.
func TestSentencePiece(t *testing.T) {
	data, err := os.ReadFile("testdata/sentencepiece/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var forms map[string][]struct {
		Text string
		IDs  []int32
	}
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&forms); err != nil {
		t.Fatal(err)
	}
	for form, cases := range forms {
		tok := sentencePiece(t, form)
		for _, c := range cases {
			if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
				t.Errorf("%s: Encode(%q)\n got %v\nwant %v", form, c.Text, got, c.IDs)
			}
			if got := tok.Decode(tok.Encode(c.Text)); !strings.Contains(c.Text, metaspace) && form == "prepend" && !strings.Contains(c.Text, "s>") && got != c.Text {
				t.Errorf("%s: %q comes back as %q", form, c.Text, got)
			}
		}
	}
	if len(forms) != 2 {
		t.Errorf("%d forms", len(forms))
	}
}

// TestContinue: text in pieces gets the space before it once, and again after an added token as the form says.
func TestContinue(t *testing.T) {
	for _, form := range []string{"prepend", "first", "never"} {
		tok := sentencePiece(t, form)
		for _, pieces := range [][]string{{"a", "b"}, {"<s>", "a", " b"}, {"x\n", "y", "</s>", "z"}} {
			var ids []int32
			for _, p := range pieces {
				ids = tok.Continue(ids, p)
			}
			whole := strings.Join(pieces, "")
			if got, want := tok.Decode(ids), tok.Decode(tok.Encode(whole)); got != want {
				t.Errorf("%s: %q in pieces reads %q, whole %q", form, pieces, got, want)
			}
		}
	}
}

// TestWordsMergeApart: a vocabulary whose tokens reach over word starts is not split there.
func TestWordsMergeApart(t *testing.T) {
	m := bpeModel{Vocab: map[string]int32{"▁▁a": 0, "b": 1}}
	if len(m.wordSplitter()) != 1 {
		t.Error("words are not split")
	}
	m.Vocab["a▁b"] = 2
	if len(m.wordSplitter()) != 0 {
		t.Error("words are split though a token spans two")
	}
	text := "▁▁ab▁c▁▁d▁"
	start, pieces := 0, []string{}
	for _, end := range (wordStarts{}).split(nil, text, 0) {
		pieces, start = append(pieces, text[start:end]), end
	}
	if want := []string{"▁▁ab", "▁c", "▁▁d", "▁"}; !slices.Equal(pieces, want) {
		t.Errorf("pieces %q, want %q", pieces, want)
	}
}
