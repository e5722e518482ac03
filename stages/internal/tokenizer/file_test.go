package tokenizer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a tokenizer.json of 256 bytes and a few merges, changed by edit before it is written.
func small(tb testing.TB, edit func(m map[string]any)) []byte {
	tb.Helper()
	vocab := map[string]any{}
	for i, r := range byteRune {
		vocab[string(r)] = i
	}
	for i, token := range []string{"ab", "abc", "Ġa", "bc"} {
		vocab[token] = 256 + i
	}
	f := map[string]any{
		"added_tokens":  []any{map[string]any{"id": 300, "content": "<end>", "special": true}},
		"normalizer":    nil,
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "use_regex": true},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{"a b", "ab c"}},
	}
	if edit != nil {
		edit(f)
	}
	data, err := json.Marshal(f)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func model(m map[string]any) map[string]any { return m["model"].(map[string]any) }

func TestSettings(t *testing.T) {
	pairs := func(m map[string]any) { model(m)["merges"] = []any{[]any{"a", "b"}, []any{"ab", "c"}} }
	added := func(field string) func(m map[string]any) {
		return func(m map[string]any) {
			m["added_tokens"].([]any)[0].(map[string]any)[field] = true
		}
	}
	for _, c := range []struct {
		name string
		edit func(m map[string]any)
		text string
		want []int32
	}{
		{"merges as lines", nil, "abc", []int32{257}},
		{"merges as pairs", pairs, "abc", []int32{257}},
		{"lowest rank first", func(m map[string]any) { model(m)["merges"] = []any{"b c", "a b"} }, "abc", []int32{'a', 259}},
		{"merges decide", nil, " a", []int32{' ', 'a'}},
		{"whole pieces taken", func(m map[string]any) { model(m)["ignore_merges"] = true }, " a", []int32{258}},
		{"pieces by the byte-level pattern", nil, "ab'llab", []int32{256, '\'', 'l', 'l', 256}},
		{"space put first", func(m map[string]any) {
			model(m)["ignore_merges"] = true
			m["pre_tokenizer"].(map[string]any)["add_prefix_space"] = true
		}, "a", []int32{258}},
		{"no pattern", func(m map[string]any) { pairs(m); m["pre_tokenizer"].(map[string]any)["use_regex"] = false }, "c abc", []int32{'c', ' ', 257}},
		{"own pattern", func(m map[string]any) {
			m["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
				map[string]any{"type": "Split", "pattern": map[string]any{"Regex": "b"}, "behavior": "Isolated"},
				map[string]any{"type": "ByteLevel", "use_regex": false},
			}}
		}, "abc", []int32{'a', 'b', 'c'}},
		{"literal pattern", func(m map[string]any) {
			m["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
				map[string]any{"type": "Split", "pattern": map[string]any{"String": "c"}, "behavior": "Isolated"},
				map[string]any{"type": "ByteLevel", "use_regex": false},
			}}
		}, "abc", []int32{256, 'c'}},
		{"form C", func(m map[string]any) { m["normalizer"] = map[string]any{"type": "NFC"} }, "e\u0301", []int32{0xC3, 0xA9}},
		{"form as given", nil, "e\u0301", []int32{'e', 0xCC, 0x81}},
		{"added token", nil, "a<end>b", []int32{'a', 300, 'b'}},
		{"added token takes white space before", added("lstrip"), "a <end> b", []int32{'a', 300, ' ', 'b'}},
		{"added token takes white space after", added("rstrip"), "a <end> b", []int32{'a', ' ', 300, 'b'}},
		{"added token stands alone", added("single_word"), "a<end> <end>", []int32{'a', '<', 'e', 'n', 'd', '>', ' ', 300}},
		{"longest added token", func(m map[string]any) {
			m["added_tokens"] = append(m["added_tokens"].([]any), map[string]any{"id": 301, "content": "<end><end>"})
		}, "<end><end><end>", []int32{301, 300}},
		{"added token in normalised text", func(m map[string]any) {
			m["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{map[string]any{"type": "NFC"}}}
			m["added_tokens"] = []any{map[string]any{"id": 300, "content": "é!", "normalized": true}}
		}, "ae\u0301!", []int32{'a', 300}},
		{"unknown bytes dropped", func(m map[string]any) {
			delete(model(m)["vocab"].(map[string]any), "b")
			model(m)["merges"] = nil
		}, "abba", []int32{'a', 'a'}},
		{"unknown bytes fused", func(m map[string]any) {
			delete(model(m)["vocab"].(map[string]any), "b")
			model(m)["merges"], model(m)["unk_token"], model(m)["fuse_unk"] = nil, "?", true
		}, "abba", []int32{'a', '?', 'a'}},
	} {
		tok, err := Parse(small(t, c.edit))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := tok.Encode(c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: Encode(%q) = %v, want %v", c.name, c.text, got, c.want)
		}
	}
}

func TestBadFiles(t *testing.T) {
	whole := small(t, nil)
	edited := func(edit func(m map[string]any)) []byte { return small(t, edit) }
	for _, c := range []struct {
		name string
		data []byte
		says string
	}{
		{"empty", nil, "torn"},
		{"torn", whole[:len(whole)/2], "torn, or not JSON, at byte"},
		{"a list", []byte(`[{"text":"a","ids":[1]}]`), "not a tokenizer.json"},
		{"another object", []byte(`{"a":1}`), "it has no model"},
		{"model", edited(func(m map[string]any) { model(m)["type"] = "Unigram" }), `model type "Unigram"`},
		{"byte fallback", edited(func(m map[string]any) { model(m)["byte_fallback"] = true }), "byte_fallback"},
		{"dropout", edited(func(m map[string]any) { model(m)["dropout"] = 0.1 }), "dropout 0.1"},
		{"suffix", edited(func(m map[string]any) { model(m)["end_of_word_suffix"] = "</w>" }), "</w>"},
		{"no vocabulary", edited(func(m map[string]any) { model(m)["vocab"] = nil }), "vocabulary is empty"},
		{"id out of range", edited(func(m map[string]any) { model(m)["vocab"].(map[string]any)["x"] = 1 << 30 }), `of token "x"`},
		{"added id out of range", edited(func(m map[string]any) { m["added_tokens"].([]any)[0].(map[string]any)["id"] = -1 }), `added token "<end>"`},
		{"merge of three", edited(func(m map[string]any) { model(m)["merges"] = []any{"a b c"} }), "merge 0"},
		{"merges of numbers", edited(func(m map[string]any) { model(m)["merges"] = []any{1} }), "neither pairs nor lines"},
		{"merge without token", edited(func(m map[string]any) { model(m)["merges"] = []any{"a b", "y z"} }), `merge 1 ("y", "z") needs token "yz"`},
		{"normalizer", edited(func(m map[string]any) { m["normalizer"] = map[string]any{"type": "Lowercase"} }), `normalizer "Lowercase"`},
		{"no pre-tokenizer", edited(func(m map[string]any) { m["pre_tokenizer"] = nil }), "no pre-tokenizer"},
		{"pre-tokenizer", edited(func(m map[string]any) { m["pre_tokenizer"] = map[string]any{"type": "Metaspace"} }), `pre-tokenizer "Metaspace"`},
		{"behavior", edited(func(m map[string]any) {
			m["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
				map[string]any{"type": "Split", "pattern": map[string]any{"Regex": "a"}, "behavior": "Removed"}, map[string]any{"type": "ByteLevel"}}}
		}), `behavior "Removed"`},
		{"pattern", edited(func(m map[string]any) {
			m["pre_tokenizer"] = map[string]any{"type": "Sequence", "pretokenizers": []any{
				map[string]any{"type": "Split", "pattern": map[string]any{"Regex": "(a"}, "behavior": "Isolated"}, map[string]any{"type": "ByteLevel"}}}
		}), `pattern "(a"`},
	} {
		path := filepath.Join(t.TempDir(), "tokenizer.json")
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, part := range []string{c.says, path} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.json")); err == nil || !strings.Contains(err.Error(), "none.json") {
		t.Errorf("missing file: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(small(f, nil), "abc ab<end>")
	f.Add([]byte(`{"pre_tokenizer":{"type":"ByteLevel","use_regex":true},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"]]}}`), "abab")
	f.Add([]byte(`{"model":{"vocab":{"a":-1}}}`), "")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		tok, err := Parse(bytes.Clone(data))
		if err != nil {
			return
		}
		for _, id := range tok.Encode(text) {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("id %d outside 0..%d", id, tok.VocabSize()-1)
			}
		}
	})
}
