package gemm

import (
	"slices"
	"strings"
	"testing"
)

func TestSelect(t *testing.T) {
	if got := Current().Name(); got != Paths()[0] {
		t.Errorf("without a choice %q is current, want the fastest, %q", got, Paths()[0])
	}
	defer selected.Store(nil)
	for _, name := range Paths() {
		if err := Select(name); err != nil {
			t.Fatal(err)
		}
		if got := Current().Name(); got != name {
			t.Errorf("Select(%q) makes %q current", name, got)
		}
		if p, err := Lookup(""); err != nil || p != Current() {
			t.Errorf("Lookup(\"\") = %v, %v, want the current path", p, err)
		}
	}
	before := Current()
	err := Select("sse9")
	if err == nil || !strings.Contains(err.Error(), `"sse9"`) || !strings.Contains(err.Error(), "gonum") {
		t.Errorf("Select of an unknown path says %v", err)
	}
	if Current() != before {
		t.Error("a failed Select changes the current path")
	}
	if !slices.Contains(Paths(), "go") {
		t.Errorf("the portable path is missing from %v", Paths())
	}
}
