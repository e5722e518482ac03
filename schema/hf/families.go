package hf

import (
	"fmt"
	"strings"
)

// family is one target architecture: what it refuses and fills in, and which tensors its forward needs.
type family struct {
	architecture string // as in config.json
	read         func(c *config) (Geometry, error)
	tensors      func(g Geometry) []Shape // all but the head, with the prefix "model."
}

// families is every supported target architecture.
var families = []family{qwen3}

func findFamily(c *config) (family, error) {
	var known []string
	for _, f := range families {
		known = append(known, f.architecture)
		for _, a := range c.Architectures {
			if a == f.architecture {
				return f, nil
			}
		}
	}
	if len(c.Architectures) == 0 {
		return family{}, fmt.Errorf("architectures: is missing; supported are %s", strings.Join(known, ", "))
	}
	return family{}, fmt.Errorf("architectures: %s is not supported; supported are %s",
		strings.Join(c.Architectures, ", "), strings.Join(known, ", "))
}
