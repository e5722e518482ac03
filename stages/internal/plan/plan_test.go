package plan

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"penstock/schema"
)

type lengths []int

func (l lengths) Len() int         { return len(l) }
func (l lengths) Length(i int) int { return l[i] }

func config(buckets string, maxLength, tokens, size, epochs, steps int) *schema.Config {
	c := &schema.Config{Seed: 5}
	c.Data.Buckets, c.Data.MaxLength = buckets, maxLength
	c.Batch.Tokens, c.Window.Batches = tokens, size
	c.Train.Epochs, c.Train.MaxSteps = epochs, steps
	return c
}

// draw draws documents and a configuration for them.
func draw(t *rapid.T) (lengths, *schema.Config) {
	docs := lengths(rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 200)), 1, 120).Draw(t, "lengths"))
	buckets := rapid.SampledFrom([]string{"auto:1", "auto:4", "auto:9", "8,32,100", "200", "1,2,3"}).Draw(t, "buckets")
	return docs, config(buckets, 200, rapid.IntRange(1, 400).Draw(t, "tokens"), rapid.IntRange(1, 9).Draw(t, "window"),
		rapid.IntRange(1, 4).Draw(t, "epochs"), rapid.IntRange(0, 30).Draw(t, "steps"))
}

// TestPlan checks what every run relies on: each epoch takes each document once, batches keep to their bucket and size,
// numbers run on, and the figures that are derived agree with the plan itself.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs, c := draw(t)
		p, err := New(docs, c)
		if err != nil {
			t.Fatal(err)
		}
		edges := map[string][2]int{} // (lower, upper]
		lower := 0
		for _, b := range p.Buckets() {
			edges[b.Name] = [2]int{lower, b.Edge}
			lower = b.Edge
		}
		index, seen := 0, map[int]map[int32]bool{}
		perWindow := make([]map[string]int, p.Windows())
		for w := range p.Windows() {
			list := p.Window(w)
			perWindow[w] = map[string]int{}
			if len(list) == 0 || len(list) > c.Window.Batches {
				t.Fatalf("window %d has %d batches", w, len(list))
			}
			for _, b := range list {
				if b.Index != index || b.Window != w || len(b.Docs) == 0 {
					t.Fatalf("batch %d of window %d is %+v", index, w, b)
				}
				if again := p.Batch(index); !reflect.DeepEqual(again, b) {
					t.Fatalf("Batch(%d) = %+v, want %+v", index, again, b)
				}
				if w < p.Start(b.Epoch) || w >= p.Start(b.Epoch+1) {
					t.Fatalf("window %d holds a batch of epoch %d, windows %d to %d", w, b.Epoch, p.Start(b.Epoch), p.Start(b.Epoch+1)-1)
				}
				tokens := 0
				for _, d := range b.Docs {
					n := docs[d]
					if n <= edges[b.Bucket][0] || n > edges[b.Bucket][1] {
						t.Fatalf("batch %+v holds a document of %d tokens", b, n)
					}
					tokens += n
					if seen[b.Epoch] == nil {
						seen[b.Epoch] = map[int32]bool{}
					}
					if seen[b.Epoch][d] {
						t.Fatalf("epoch %d takes document %d twice", b.Epoch, d)
					}
					seen[b.Epoch][d] = true
				}
				if tokens != b.Tokens || len(b.Docs) > 1 && tokens > c.Batch.Tokens {
					t.Fatalf("batch %+v holds %d tokens", b, tokens)
				}
				perWindow[w][b.Bucket]++
				index++
			}
		}
		if index != p.Batches() || p.Window(p.Windows()) != nil || p.Window(-1) != nil || p.Batch(index).Docs != nil || p.Batch(-1).Docs != nil {
			t.Fatalf("%d batches, Batches() = %d", index, p.Batches())
		}
		if c.Train.MaxSteps > 0 && p.Windows() > c.Train.MaxSteps {
			t.Fatalf("%d windows, at most %d steps", p.Windows(), c.Train.MaxSteps)
		}
		if capped := c.Train.MaxSteps > 0 && p.Windows() == c.Train.MaxSteps; !capped {
			if p.Epochs() != c.Train.Epochs {
				t.Fatalf("%d epochs, want %d", p.Epochs(), c.Train.Epochs)
			}
			for e := range p.Epochs() {
				if len(seen[e]) != len(docs) {
					t.Fatalf("epoch %d takes %d of %d documents", e, len(seen[e]), len(docs))
				}
			}
		}
		for _, b := range p.Buckets() {
			n := 0
			for _, w := range perWindow {
				n += w[b.Name]
			}
			if b.Batches != n {
				t.Fatalf("bucket %s says %d batches, has %d", b.Name, b.Batches, n)
			}
			for ahead := range 4 {
				most := 0
				for w := range perWindow {
					open := 0
					for _, n := range perWindow[w:min(w+ahead+1, len(perWindow))] {
						open += n[b.Name]
					}
					most = max(most, open)
				}
				if got := p.Ceiling(b.Name, ahead); got != most {
					t.Fatalf("Ceiling(%s, %d) = %d, want %d", b.Name, ahead, got, most)
				}
				if ahead == 0 && p.Floor(b.Name) != most {
					t.Fatalf("Floor(%s) = %d, want %d", b.Name, p.Floor(b.Name), most)
				}
			}
		}
		if p.Floor("none") != 0 {
			t.Fatal("a bucket that is not there has a floor")
		}
	})
}

// TestPure makes the same plan twice, read in different orders, and another with each input changed.
func TestPure(t *testing.T) {
	docs := make(lengths, 500)
	for i := range docs {
		docs[i] = 1 + i*37%150
	}
	all := func(p *Plan, backwards bool) (list []BatchPlan) {
		for w := range p.Windows() {
			if backwards {
				w = p.Windows() - 1 - w
			}
			list = append(list, p.Window(w)...)
		}
		slices.SortFunc(list, func(a, b BatchPlan) int { return a.Index - b.Index })
		return list
	}
	make := func(edit func(c *schema.Config)) *Plan {
		c := config("auto:4", 150, 300, 4, 3, 0)
		edit(c)
		p, err := New(docs, c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	same := func(c *schema.Config) {}
	want := all(make(same), false)
	if got := all(make(same), true); !reflect.DeepEqual(got, want) {
		t.Error("the same inputs give another plan")
	}
	if got := all(make(func(c *schema.Config) { c.Seed++ }), false); reflect.DeepEqual(got, want) {
		t.Error("another seed gives the same plan")
	}
	if capped := all(make(func(c *schema.Config) { c.Train.MaxSteps = 20 }), false); !reflect.DeepEqual(capped, want[:len(capped)]) || capped[len(capped)-1].Window != 19 {
		t.Error("fewer steps give another beginning")
	}
	epochs := [2][]int32{}
	for _, b := range want {
		if b.Epoch < 2 {
			epochs[b.Epoch] = append(epochs[b.Epoch], b.Docs...)
		}
	}
	if slices.Equal(epochs[0], epochs[1]) {
		t.Error("two epochs have the same order")
	}
	p := make(same)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			if got := all(p, g%2 == 0); !reflect.DeepEqual(got, want) {
				t.Error("reading the plan from several goroutines gives another")
			}
		})
	}
	wg.Wait()
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		docs   lengths
		config *schema.Config
		says   string
	}{
		{lengths{}, config("auto:2", 10, 10, 1, 1, 0), "no documents"},
		{lengths{5}, config("auto:2", 10, 0, 1, 1, 0), "batch.tokens is 0"},
		{lengths{5}, config("auto:2", 10, 10, 0, 1, 0), "window.batches is 0"},
		{lengths{5}, config("auto:2", 10, 10, 1, 0, 0), "train.epochs is 0"},
		{lengths{5}, config("auto:0", 10, 10, 1, 1, 0), "auto:N"},
		{lengths{5}, config("auto:x", 10, 10, 1, 1, 0), "auto:N"},
		{lengths{5}, config("", 10, 10, 1, 1, 0), `""`},
		{lengths{5}, config("4,x", 10, 10, 1, 1, 0), `"x"`},
		{lengths{5}, config("4,4", 10, 10, 1, 1, 0), "edge 4 does not rise"},
		{lengths{5}, config("4,11", 10, 10, 1, 1, 0), "edge 11 is above data.max_length 10"},
		{lengths{5, 11}, config("4", 10, 10, 1, 1, 0), "document 1 has 11 tokens"},
		{lengths{0}, config("4", 10, 10, 1, 1, 0), "document 0 has 0 tokens"},
	} {
		if _, err := New(c.docs, c.config); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v with %q: error %v, want one that says %q", c.docs, c.config.Data.Buckets, err, c.says)
		}
	}
}

func TestEdges(t *testing.T) {
	ramp := make(lengths, 100)
	for i := range ramp {
		ramp[i] = i + 1
	}
	for _, c := range []struct {
		docs lengths
		spec string
		want []int
	}{
		{ramp, "10, 50,128", []int{10, 50, 128}},
		{ramp, "10,50", []int{10, 50, 128}},
		{ramp, "auto:1", []int{100}},
		{ramp, "auto:2", []int{71, 100}}, // 71·72/2 is the first at least half of 100·101/2
		{lengths{5, 5, 5, 5}, "auto:3", []int{5}},
		{lengths{1, 1, 1, 97}, "auto:2", []int{97}},
		{lengths{10, 20, 30}, "auto:9", []int{10, 20, 30}},
	} {
		if got, err := Edges(c.docs, c.spec, 128); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("Edges(%d documents, %q) = %v, %v, want %v", len(c.docs), c.spec, got, err, c.want)
		}
	}
}
