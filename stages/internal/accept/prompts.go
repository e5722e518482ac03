package accept

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// Prompt is one entry of a prompt file.
type Prompt struct {
	ID     string `json:"id"`
	Prompt string `json:"prompt"`
}

// readPrompts reads a prompt file, and says on which line it is wrong.
func readPrompts(path string) ([]Prompt, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("prompts: %w", err)
	}
	var list []Prompt
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("prompts %s:%d: want a list of {\"id\", \"prompt\"}: %w", path, lineOf(b, err), err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("prompts %s: the list is empty", path)
	}
	for i, p := range list {
		if p.Prompt == "" {
			return nil, fmt.Errorf("prompts %s: entry %d (id %q) has no prompt", path, i, p.ID)
		}
	}
	return list, nil
}

func lineOf(b []byte, err error) int {
	var syntax *json.SyntaxError
	var typed *json.UnmarshalTypeError
	at := int64(len(b))
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &typed):
		at = typed.Offset
	}
	return 1 + bytes.Count(b[:min(at, int64(len(b)))], []byte("\n"))
}
