package chat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoad(t *testing.T) {
	tok := loadTok(t)
	for _, c := range []struct {
		name  string
		files map[string]string
		want  string // rendered
		says  string // or the error's part
	}{
		{"own file", map[string]string{"chat_template.jinja": "A{{ messages[0].content }}\n", "tokenizer_config.json": `{"chat_template":"B"}`}, "Ax", ""},
		{"own file alone", map[string]string{"chat_template.jinja": "A"}, "A", ""},
		{"in the configuration", map[string]string{"tokenizer_config.json": `{"chat_template":"{{ bos_token }}C{{ eos_token }}","bos_token":"<s>","eos_token":{"content":"</s>"}}`}, "<s>C</s>", ""},
		{"the default of several", map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]}`}, "D", ""},
		{"a fixed date", map[string]string{"chat_template.jinja": `{{ strftime_now("%d %b %Y") }}`}, "26 Jul 2024", ""},
		{"no tools", map[string]string{"chat_template.jinja": `{{ tools is none }}`}, "True", ""},
		{"nothing", nil, "", "neither chat_template.jinja nor tokenizer_config.json"},
		{"no template", map[string]string{"tokenizer_config.json": `{"eos_token":"x"}`}, "", "no chat_template"},
		{"no default", map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"rag","template":"R"}]}`}, "", `"default"`},
		{"torn", map[string]string{"tokenizer_config.json": `{"chat_template":`}, "", "torn"},
		{"not a template", map[string]string{"chat_template.jinja": "{% for %}"}, "", "compile"},
		{"of another type", map[string]string{"tokenizer_config.json": `{"chat_template":3}`}, "", "neither a string nor a list"},
	} {
		dir := t.TempDir()
		for name, content := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		tmpl, err := Load(dir, tok)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: error %v, want one that says %q and where", c.name, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := tmpl.Render(Talk(Message{Role: "user", Content: "x"}), false); err != nil || got != c.want {
			t.Errorf("%s: Render = %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	tok := loadTok(t)
	seen := map[[32]byte]string{}
	for _, c := range []struct {
		source string
		tokens map[string]string
	}{{"a", nil}, {"b", nil}, {"a", map[string]string{"bos_token": "x"}}, {"a", map[string]string{"bos_token": "y"}}, {"a", map[string]string{"eos_token": "x"}}} {
		tmpl, err := New(c.source, c.tokens, tok)
		if err != nil {
			t.Fatal(err)
		}
		f := tmpl.Fingerprint()
		if before, ok := seen[f]; ok {
			t.Errorf("%q %v has the fingerprint of %s", c.source, c.tokens, before)
		}
		seen[f] = c.source
	}
}
