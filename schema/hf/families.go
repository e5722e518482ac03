package hf

import (
	"fmt"
	"slices"
	"strings"
)

// family is one target architecture: what it refuses and fills in, and which tensors its forward needs.
type family struct {
	architecture string // as in config.json
	read         func(c *config) (decoder, error)
	tensors      func(g Geometry) []Shape // all but the head, with the prefix "model."
}

// families is every supported target architecture. Adding a dense one is a file with an entry here and a golden folder.
var families = []family{qwen3, qwen2, llama, mistral}

func findFamily(c *config) (family, error) {
	var known []string
	for _, f := range families {
		known = append(known, f.architecture)
		if slices.Contains(c.Architectures, f.architecture) {
			return f, c.refuseKind(f.architecture)
		}
	}
	supported := "supported are the dense decoders " + strings.Join(known, ", ")
	if len(c.Architectures) == 0 {
		return family{}, fmt.Errorf("architectures: is missing; %s", supported)
	}
	name := strings.Join(c.Architectures, ", ")
	if kind := c.kind(); kind != "" {
		name += ", " + kind + ","
	}
	return family{}, fmt.Errorf("architectures: %s is not supported; %s", name, supported)
}

// kind says what keeps a configuration from being a dense decoder, empty if nothing does.
func (c *config) kind() string {
	for _, n := range []*int{c.Experts, c.LocalExperts, c.RoutedExperts} {
		if or(n, 0) > 1 {
			return fmt.Sprintf("a mixture of %d experts", *n)
		}
	}
	for _, t := range c.LayerTypes {
		if t != FullAttention && t != SlidingAttention {
			return fmt.Sprintf("a hybrid with layers of %q", t)
		}
	}
	if len(c.Text) > 0 {
		return "a model of several modes"
	}
	return ""
}

func (c *config) refuseKind(architecture string) error {
	if kind := c.kind(); kind != "" {
		return fmt.Errorf("architectures: %s as %s is not supported", architecture, kind)
	}
	return nil
}
