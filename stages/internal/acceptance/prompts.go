// Package acceptance measures how many tokens a drafter saves its target: greedy speculative decoding of held-out prompts.
package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"penstock/stages/internal/chat"
	"penstock/stages/internal/tokenizer"
)

// Prompt is one entry of a prompt file: a single user turn.
type Prompt struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
}

// ReadPrompts reads a prompt file, a JSON list. An entry without a prompt is an error that names it.
func ReadPrompts(path string) ([]Prompt, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read prompts: %w", err)
	}
	var ps []Prompt
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&ps); err != nil {
		return nil, fmt.Errorf("%s: %s: not a list of {id, prompt}: %w", path, at(b, err, dec.InputOffset()), err)
	}
	if len(ps) == 0 {
		return nil, fmt.Errorf("%s: holds no prompts", path)
	}
	for i, p := range ps {
		if p.Prompt == "" {
			return nil, fmt.Errorf("%s: entry %d (id %q) has no prompt", path, i, p.ID)
		}
	}
	return ps, nil
}

// at names the line of a JSON error.
func at(b []byte, err error, read int64) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		read = syntax.Offset
	case errors.As(err, &kind):
		read = kind.Offset
	}
	return fmt.Sprintf("line %d", 1+bytes.Count(b[:min(read, int64(len(b)))], []byte{'\n'}))
}

// Encode reads the first limit prompts of a file, all if it is 0, and returns each as the token ids that the model in
// dir continues: one user turn through its chat template, with the generation prompt.
func Encode(dir, path string, limit int) ([][]int32, error) {
	ps, err := ReadPrompts(path)
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.Load(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	tpl, err := chat.Load(dir, tok)
	if err != nil {
		return nil, err
	}
	if limit > 0 && limit < len(ps) {
		ps = ps[:limit]
	}
	ids := make([][]int32, len(ps))
	for i, p := range ps {
		text, err := tpl.Render([]chat.Message{{Role: "user", Content: p.Prompt}}, true)
		if err != nil {
			return nil, fmt.Errorf("%s: entry %d (id %q): %w", path, i, p.ID, err)
		}
		ids[i] = tok.Encode(text)
	}
	return ids, nil
}
