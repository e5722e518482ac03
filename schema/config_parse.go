package schema

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node reads a mapping of the file into the struct v, whose keys are under prefix.
func (p *loader) node(n *yaml.Node, v reflect.Value, prefix string) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return // a group without keys
	}
	if n.Kind != yaml.MappingNode {
		p.bad(p.at(n), prefix, "want keys and values, found %s", describe(n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, val := n.Content[i], n.Content[i+1]
		key := join(prefix, name.Value)
		f, ok := fieldOf(v, name.Value)
		switch {
		case !ok || name.Kind != yaml.ScalarNode || strings.Contains(name.Value, "."):
			p.bad(p.at(name), "", "unknown key %q%s", key, suggest(key))
		case seen[key]:
			p.bad(p.at(name), key, "stands twice")
		case f.Kind() == reflect.Struct:
			p.node(val, f, key)
		default:
			p.value(val, f, key, p.at(val))
		}
		seen[key] = true
	}
}

func (p *loader) at(n *yaml.Node) string { return p.name + ":" + strconv.Itoa(n.Line) }

// value reads a scalar or a list of scalars.
func (p *loader) value(n *yaml.Node, v reflect.Value, key, place string) {
	p.source[key] = place
	if err := assign(n, v); err != nil {
		p.bad(place, key, "%v", err)
	}
}

func assign(n *yaml.Node, v reflect.Value) error {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if v.Kind() == reflect.Slice {
		if n.Kind != yaml.SequenceNode {
			return fmt.Errorf("want a list, found %s", describe(n))
		}
		list := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
		for i, c := range n.Content {
			if err := assign(c, list.Index(i)); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
		v.Set(list)
		return nil
	}
	if n.Kind != yaml.ScalarNode || !fits(n.ShortTag(), v.Kind()) || n.Decode(v.Addr().Interface()) != nil {
		return fmt.Errorf("want %s, found %s", wanted(v.Kind()), describe(n))
	}
	if n.ShortTag() == "!!null" {
		v.SetZero() // text that is left empty
	}
	return nil
}

// fits keeps the YAML library from cutting fractions off and from taking nothing for zero.
func fits(tag string, k reflect.Kind) bool {
	switch k {
	case reflect.Int, reflect.Uint64:
		return tag == "!!int"
	case reflect.Float64:
		return tag == "!!int" || tag == "!!float"
	case reflect.Bool:
		return tag != "!!null"
	}
	return true
}

func wanted(k reflect.Kind) string {
	switch k {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "an integer"
	case reflect.Uint64:
		return "an integer from 0 on"
	case reflect.Float64:
		return "a number"
	}
	return "text"
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys and values"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.ShortTag() == "!!null" && n.Value == "" {
		return "nothing"
	}
	return strconv.Quote(n.Value)
}
