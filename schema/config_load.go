package schema

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// LoadConfig reads a configuration file for a new run, applies sets (each key=value, as in train.lr=0.002 or
// target.taps=1,2,4) and validates the result. A relative path counts from the working directory or, if there is nothing
// there, from the file's own directory; the result holds absolute ones. A path that leads nowhere is an error.
//
// All problems come in one error, a line each, with file and line or with the --set that brought them.
func LoadConfig(path string, sets []string) (Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, errors.Unwrap(err))
	}
	p := parse(path, text, sets)
	p.resolve(filepath.Dir(path))
	return p.result()
}

// ParseConfig is LoadConfig for the text of a resolved configuration: paths are taken as they are and not looked up.
// name stands for the file in errors.
func ParseConfig(name string, text []byte, sets []string) (Config, error) {
	return parse(name, text, sets).result()
}

// loader fills a Config and remembers where each value came from.
type loader struct {
	name   string
	cfg    Config
	source map[string]string // by dotted key: file:line or the --set
	found  []problem
	torn   bool // the file is no YAML document: what it was to say is not known
}

func parse(name string, text []byte, sets []string) *loader {
	p := &loader{name: name, cfg: Default(), source: map[string]string{}}
	if p.file(text); p.torn {
		return p
	}
	for _, s := range sets {
		p.set(s)
	}
	if _, given := p.source["train.gamma"]; !given {
		p.cfg.Train.Gamma = DefaultGamma(p.cfg.Draft.BlockSize)
	}
	return p
}

func (p *loader) bad(place, key, format string, args ...any) {
	p.found = append(p.found, problem{place, key, fmt.Sprintf(format, args...)})
}

// badValue is bad for a key whose value could be read.
func (p *loader) badValue(key, format string, args ...any) {
	place := p.source[key]
	if place == "" {
		place = p.name
	}
	p.bad(place, key, format, args...)
}

// result returns the configuration if nothing is wrong with its form or its values.
func (p *loader) result() (Config, error) {
	if p.torn {
		return Config{}, report(p.found)
	}
	unread := map[string]bool{}
	for _, f := range p.found {
		unread[f.key] = true
	}
	for _, v := range p.cfg.problems() {
		if !unread[v.key] { // what could not be read is not judged as well
			p.badValue(v.key, "%s", v.text)
		}
	}
	if err := report(p.found); err != nil {
		return Config{}, err
	}
	return p.cfg, nil
}

func (p *loader) file(text []byte) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, next yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return // nothing but comments: all defaults
	case err != nil:
		p.tear(err)
		return
	}
	switch err := d.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err != nil:
		p.tear(err)
		return
	default:
		p.torn = true
		p.bad(p.at(&next), "", "a second YAML document begins, want one")
		return
	}
	p.node(doc.Content[0], reflect.ValueOf(&p.cfg).Elem(), "")
}

// tear notes what the YAML library says of a file that is no YAML, led by file and line if it names one.
func (p *loader) tear(err error) {
	p.torn = true
	place, text := p.name, strings.TrimPrefix(err.Error(), "yaml: ")
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if line, what, ok := strings.Cut(rest, ": "); ok {
			place, text = place+":"+line, what
		}
	}
	p.bad(place, "", "this is no YAML: %s", text)
}

// set applies one key=value. A list may be written with or without brackets.
func (p *loader) set(s string) {
	place := "--set " + s
	key, value, ok := strings.Cut(s, "=")
	key = strings.TrimSpace(key)
	if !ok {
		p.bad(place, "", "is not key=value")
		return
	}
	v, ok := fieldOf(reflect.ValueOf(&p.cfg).Elem(), key)
	if !ok {
		p.bad(place, "", "unknown key %q%s", key, suggest(key))
		return
	}
	list := v.Kind() == reflect.Slice && !strings.HasPrefix(strings.TrimSpace(value), "[")
	var n yaml.Node
	switch {
	case v.Kind() == reflect.Struct:
		p.bad(place, "", "%s is a group, name one of its keys: %s", key, strings.Join(keysUnder(key), ", "))
		return
	case v.Kind() == reflect.String:
		n.SetString(value)
	case list:
		n.Kind = yaml.SequenceNode
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item != "" {
				n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: item})
			}
		}
	default:
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(value), &doc); err != nil || len(doc.Content) != 1 {
			p.bad(place, key, "cannot read the value %q", value)
			return
		}
		n = *doc.Content[0]
	}
	p.value(&n, v, key, place)
}
