package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// readSource finds the template and the special tokens' names in a model directory.
func readSource(dir string) (source string, tokens map[string]string, err error) {
	file, err := os.ReadFile(filepath.Join(dir, "chat_template.jinja"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	own := err == nil
	path := filepath.Join(dir, "tokenizer_config.json")
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && own:
		return string(file), nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, errors.New("there is neither chat_template.jinja nor tokenizer_config.json")
	case err != nil:
		return "", nil, err
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(data, &config); err != nil {
		return "", nil, fmt.Errorf("parse %q: torn, or not a JSON object: %w", path, err)
	}
	tokens = map[string]string{}
	for name, value := range config {
		if content, ok := tokenContent(value); ok && strings.HasSuffix(name, "_token") {
			tokens[name] = content
		}
	}
	if own {
		return string(file), tokens, nil
	}
	source, err = templateIn(config["chat_template"])
	if err != nil {
		return "", nil, fmt.Errorf("%q: %w", path, err)
	}
	return source, tokens, nil
}

// tokenContent reads a special token: a string, or an object with its content.
func tokenContent(value json.RawMessage) (string, bool) {
	var content string
	if json.Unmarshal(value, &content) == nil {
		return content, content != ""
	}
	var object struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(value, &object) == nil {
		return object.Content, object.Content != ""
	}
	return "", false
}

// templateIn reads chat_template: a string, or a list of named templates of which "default" is taken.
func templateIn(value json.RawMessage) (string, error) {
	if len(value) == 0 || string(value) == "null" {
		return "", errors.New("it has no chat_template, and there is no chat_template.jinja beside it")
	}
	var source string
	if json.Unmarshal(value, &source) == nil {
		return source, nil
	}
	var list []struct {
		Name     string `json:"name"`
		Template string `json:"template"`
	}
	if err := json.Unmarshal(value, &list); err != nil {
		return "", fmt.Errorf("chat_template is neither a string nor a list of named templates: %w", err)
	}
	for _, named := range list {
		if named.Name == "default" {
			return named.Template, nil
		}
	}
	return "", errors.New(`chat_template is a list without one named "default"`)
}
