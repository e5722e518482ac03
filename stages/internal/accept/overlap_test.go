package accept

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/schema/store"
	"penstock/stages/internal/prepare"
)

// TestOverlap: a prompt counts if its turn is one of a document's, the first or a later one, whole and unchanged.
func TestOverlap(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	row := func(turns ...string) string {
		type message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		}
		var list []message
		for i, text := range turns {
			list = append(list, message{[]string{"user", "assistant"}[i%2], text})
		}
		b, err := json.Marshal(map[string]any{"messages": list})
		if err != nil {
			t.Fatal(err)
		}
		return string(b) + "\n"
	}
	data := write("chats.jsonl", row("What is a mutex?", "A lock that one goroutine holds.")+
		row("Tell me about channels.", "They carry values.", "And select?", "It waits for several of them."))
	prompts := write("prompts.json", `[{"id": "a", "prompt": "What is a mutex"}, {"id": "b", "prompt": "What is a mutex?"},
		{"id": "c", "prompt": "They carry values."}, {"id": "d", "prompt": "And select?"}, {"id": "e", "prompt": "What is a mutex?"}]`)
	r, err := prepare.Prepare(context.Background(), prepare.Options{Files: []string{data}, ModelDir: tinyGo, MaxLength: 512, OutDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(r.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for limit, want := range map[int]Overlap{0: {5, 3, 5, 3}, 2: {5, 3, 2, 1}, 9: {5, 3, 5, 3}} {
		got, err := FindOverlap(context.Background(), s, Options{Target: tinyGo, Prompts: prompts, Limit: limit})
		if err != nil || got != want {
			t.Errorf("limit %d: %+v, %v; want %+v", limit, got, err, want)
		}
		if !strings.HasPrefix(got.Warning(), "3 of the 5 prompts in eval.prompts stand in the training data too") {
			t.Errorf("warning %q", got.Warning())
		}
	}
	if w := (Overlap{Prompts: 5, Limit: 5}).Warning(); w != "" {
		t.Errorf("warning without an overlap: %q", w)
	}
}
