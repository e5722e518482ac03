package gemm

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"penstock/kernels/internal/team"
)

// Path is one implementation of the product.
type Path struct {
	name string
	mul  func(t *team.Team, c, a, b Matrix, ta, tb, add bool)
}

// Name is "avx512", "avx2", "gonum", "go" or "openblas".
func (p *Path) Name() string { return p.name }

// builtin holds the paths that this processor runs, fastest first.
var builtin = sync.OnceValue(func() []*Path {
	var ps []*Path
	for _, k := range kernels() {
		ps = append(ps, &Path{name: k.name, mul: (&blocked{kernel: k}).mul})
	}
	// The own portable kernel stands behind gonum, which has SSE assembly.
	return slices.Insert(ps, len(ps)-1, &Path{name: "gonum", mul: mulGonum})
})

var selected atomic.Pointer[Path]

// Paths names the usable implementations, fastest first, with OpenBLAS last: to see whether it can be had, it is loaded.
func Paths() []string {
	var names []string
	for _, p := range builtin() {
		names = append(names, p.name)
	}
	if _, err := openBLAS(); err == nil {
		names = append(names, "openblas")
	}
	return names
}

// Lookup returns a path by name; the empty name means Current. A path that this machine cannot run is an error.
func Lookup(name string) (*Path, error) {
	if name == "" {
		return Current(), nil
	}
	if name == "openblas" {
		return openBLAS()
	}
	for _, p := range builtin() {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("matrix product %q is not available here: choose one of %s", name, strings.Join(Paths(), ", "))
}

// Select makes the named path Current.
func Select(name string) error {
	p, err := Lookup(name)
	if err == nil {
		selected.Store(p)
	}
	return err
}

// Current is the selected path: unless Select was called, the fastest that is built in.
func Current() *Path {
	if p := selected.Load(); p != nil {
		return p
	}
	return builtin()[0]
}
