package verify

import (
	"path/filepath"
	"slices"

	"penstock/stages/internal/chat"
	"penstock/stages/internal/tokenizer"
)

const (
	tokenizerFile = "tokenizer.json"
	chatFile      = "chat.json"
)

func (r *run) loadTokenizer() (*tokenizer.Tokenizer, error) {
	return tokenizer.Load(filepath.Join(r.TargetDir, tokenizerFile))
}

// tokenizer encodes each text: ids exact.
func (r *run) tokenizer() error {
	if !r.golden.has(tokenizerFile) {
		return nil
	}
	var cases []struct {
		Text string  `json:"text"`
		IDs  []int32 `json:"ids"`
	}
	if err := r.golden.json(tokenizerFile, &cases); err != nil {
		return err
	}
	tok, err := r.loadTokenizer()
	if err != nil {
		return err
	}
	var t tally
	for _, c := range cases {
		got := tok.Encode(c.Text)
		t.count(slices.Equal(got, c.IDs), "%q gives %v, want %v", c.Text, got, c.IDs)
	}
	r.exact("tokenizer.ids", t)
	return nil
}

// chat renders and encodes each conversation: text, ids and assistant mask exact.
func (r *run) chat() error {
	if !r.golden.has(chatFile) {
		return nil
	}
	var cases []struct {
		Messages []chat.Message `json:"messages"`
		Rendered string         `json:"rendered"`
		IDs      []int32        `json:"ids"`
		Mask     []int          `json:"assistant_mask"`
	}
	if err := r.golden.json(chatFile, &cases); err != nil {
		return err
	}
	tok, err := r.loadTokenizer()
	if err != nil {
		return err
	}
	template, err := chat.Load(r.TargetDir, tok)
	if err != nil {
		return err
	}
	var rendered, ids, mask tally
	for i, c := range cases {
		text, err := template.Render(chat.Talk(c.Messages...), false)
		rendered.count(err == nil && text == c.Rendered, "case %d gives %q (error: %v), want %q", i, text, err, c.Rendered)
		got, on, err := template.Encode(chat.Talk(c.Messages...), chat.Policy{})
		ids.count(err == nil && slices.Equal(got, c.IDs), "case %d gives %v (error: %v), want %v", i, got, err, c.IDs)
		same := slices.EqualFunc(on, c.Mask, func(a uint8, b int) bool { return int(a) == b })
		mask.count(err == nil && same, "case %d gives %v (error: %v), want %v", i, on, err, c.Mask)
	}
	r.exact("chat.rendered", rendered)
	r.exact("chat.ids", ids)
	r.exact("chat.assistant_mask", mask)
	return nil
}
