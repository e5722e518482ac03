// Package chat turns conversations into token ids and a loss mask through the model's own chat template.
//
// What the assistant wrote is found in the rendered text by rendering it again with marked contents, never by searching
// for words that a conversation could contain itself.
package chat

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"

	"penstock/stages/internal/tokenizer"
)

// Template is a compiled chat template with its tokenizer, safe for concurrent use.
type Template struct {
	source     string
	tokens     []namedToken
	compiled   *jinja.Template
	tok        *tokenizer.Tokenizer
	specials   []string
	generation string // what the generation prompt adds
}

// Load reads the chat template of a model directory: chat_template.jinja, else chat_template in tokenizer_config.json.
func Load(modelDir string, tok *tokenizer.Tokenizer) (*Template, error) {
	source, tokens, err := readSource(modelDir)
	if err != nil {
		return nil, fmt.Errorf("load chat template of %q: %w", modelDir, err)
	}
	t, err := New(source, tokens, tok)
	if err != nil {
		return nil, fmt.Errorf("load chat template of %q: %w", modelDir, err)
	}
	return t, nil
}

// New compiles a template. tokens are the names that it may use for special tokens, such as bos_token.
func New(source string, tokens map[string]string, tok *tokenizer.Tokenizer) (*Template, error) {
	compiled, err := compile(source)
	if err != nil {
		return nil, err
	}
	t := &Template{source: source, tokens: sorted(tokens), compiled: compiled, tok: tok, specials: tok.Specials()}
	ask := Talk(Message{Role: "user", Content: "x"})
	plain, err := t.Render(ask, false)
	if err != nil {
		return nil, fmt.Errorf("try it on one user message: %w", err)
	}
	prompt, err := t.Render(ask, true)
	if err != nil {
		return nil, fmt.Errorf("try its generation prompt: %w", err)
	}
	t.generation, _ = strings.CutPrefix(prompt, plain)
	return t, nil
}

// Render returns the conversation as the model reads it, ended by the assistant's header if generationPrompt is set.
func (t *Template) Render(c Conversation, generationPrompt bool) (text string, err error) {
	p, err := c.parse()
	if err != nil {
		return "", err
	}
	return t.render(p, generationPrompt)
}

func (t *Template) render(p parsed, generationPrompt bool) (text string, err error) {
	defer recovered(&err, "render")
	text, err = t.compiled.RenderValues(t.values(p, generationPrompt))
	if err != nil {
		return "", fmt.Errorf("render chat template: %w", err)
	}
	return p.restoreSeparators(restoreIndents(restoreFloats(text))), nil
}

// Fingerprint changes with anything in the template that changes what it renders.
func (t *Template) Fingerprint() [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q", t.source)
	for _, n := range t.tokens {
		fmt.Fprintf(h, " %q=%q", n.name, n.content)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// lineEnds makes every line end a newline, as Jinja does with template text.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// compile compiles a template. As in Jinja's default, one newline at its end is not part of it.
func compile(source string) (t *jinja.Template, err error) {
	defer recovered(&err, "compile")
	t, err = jinja.Compile(markIndents(strings.TrimSuffix(lineEnds.Replace(source), "\n")))
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return t, nil
}

// recovered makes an error of a panic in the template engine, which runs text that the model directory brings.
func recovered(err *error, doing string) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s chat template: the template engine failed: %v", doing, p)
	}
}
