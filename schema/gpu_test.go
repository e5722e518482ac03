package schema

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseGPUs(t *testing.T) {
	for name, want := range map[string]string{
		"cuda": "cuda:0 false", "cuda/float32": "cuda:0/float32 true", "cuda:3": "cuda:3 false", "cuda:12/float32": "cuda:12/float32 true",
		"cuda:0-1": "cuda:0 cuda:1 false", "cuda:2-4/float32": "cuda:2/float32 cuda:3/float32 cuda:4/float32 true",
		"cuda:9-10": "cuda:9 cuda:10 false",
	} {
		g, ok := ParseGPUs(name)
		var got []string
		for k := range g.N {
			got = append(got, g.Name(k))
		}
		if s := strings.Join(append(got, fmt.Sprint(g.Exact())), " "); !ok || s != want {
			t.Errorf("%q: %q, %v, want %q", name, s, ok, want)
		}
		if again, ok := ParseGPUs(g.Sized(g.N)); !ok || again != g {
			t.Errorf("%q: %q reads as %+v", name, g.Sized(g.N), again)
		}
	}
	for _, name := range []string{"", "cpu", "cudax", "cuda:", "cuda:x", "cuda:-1", "cuda:1-", "cuda:-", "cuda:1-1", "cuda:2-1", "cuda:0-1-2", "cuda:0-70000", "cuda:0,1",
		"cuda:0 -1", "cuda:0/fast", "cuda0-1", "cuda-1", "cuda:0/bfloat16", "cuda:0/float32/float32"} {
		if g, ok := ParseGPUs(name); ok {
			t.Errorf("%q: %+v", name, g)
		}
	}
}

// TestPlacement: where targets, packers and drafters stand, one GPU a word.
func TestPlacement(t *testing.T) {
	for _, c := range []struct {
		gpus, targets, packers, drafters int
		want                             string
	}{
		{1, 2, 1, 1, "t1t2p1d1"},
		{2, 1, 1, 1, "t1 p1d1"},
		{2, 1, 2, 2, "t1p2d2 p1d1"},
		{2, 3, 1, 2, "t1t3d2 t2p1d1"},
		{8, 5, 3, 3, "t1 t2 t3 t4 t5 p1d1 p2d2 p3d3"},
		{4, 2, 1, 2, "t1 t2 p1d1 d2"},
		{4, 1, 1, 1, "t1 p1d1 - -"},
	} {
		g := GPUs{N: c.gpus}
		on := make([]string, c.gpus)
		for _, s := range []struct {
			stage string
			n     int
		}{{"target", c.targets}, {"pack", c.packers}, {"draft", c.drafters}} {
			for k := range s.n {
				on[g.At(s.stage, k, c.targets)] += fmt.Sprintf("%c%d", s.stage[0], k+1)
			}
		}
		for k := range on {
			if on[k] == "" {
				on[k] = "-"
			}
		}
		if got := strings.Join(on, " "); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
