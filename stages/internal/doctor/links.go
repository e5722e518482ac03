package doctor

import (
	"fmt"
	"slices"
	"strings"

	"penstock/schema"
	"penstock/stages/internal/backend"
)

// Links says how the GPUs of a run reach each other's memory. On one or none there is nothing to say.
func Links(cfg schema.Config) Checks { return links(cfg.Device, backend.Reaches, backend.Linked) }

// links groups the pairs of GPUs by their link.
func links(device string, reaches, linked func(a, b int) (bool, error)) Checks {
	var c Checks
	g, _ := schema.ParseGPUs(device)
	pairs := map[string][]string{}
	var kinds []string
	for a := g.First; a < g.First+g.N; a++ {
		for b := a + 1; b < g.First+g.N; b++ {
			kind := between(a, b, reaches, linked)
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
			pairs[kind] = append(pairs[kind], fmt.Sprintf("%d-%d", a, b))
		}
	}
	for _, kind := range kinds {
		which := "gpu " + strings.Join(pairs[kind], ", ")
		if len(kinds) == 1 {
			which = "every pair of " + device
		}
		c.good("links", "%s: %s", which, kind)
	}
	return c
}

// between describes the link of two GPUs: peer access counts if both have it.
func between(a, b int, reaches, linked func(a, b int) (bool, error)) string {
	for _, p := range [][2]int{{a, b}, {b, a}} {
		switch ok, err := reaches(p[0], p[1]); {
		case err != nil:
			return fmt.Sprintf("not known (%v)", err)
		case !ok:
			return "no peer access, copies go through page-locked host memory"
		}
	}
	switch ok, err := linked(a, b); {
	case err != nil:
		return "peer access"
	case !ok:
		return "peer access without NVLink"
	}
	return "peer access over NVLink"
}
