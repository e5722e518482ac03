package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"penstock/schema"
)

// Next agrees with a search through the windows, wherever it starts; InWindows counts what they hold.
func TestNextAgreesWithTheWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := sizes(rapid.SliceOfN(rapid.IntRange(1, 64), 1, 80).Draw(t, "lengths"))
		c := &schema.Config{Seed: 3, Data: schema.DataConfig{MaxLength: 64, Buckets: "8,16,32"}, Batch: schema.BatchConfig{Tokens: 64}}
		c.Window.Batches = rapid.IntRange(1, 6).Draw(t, "window")
		c.Train.Epochs = rapid.IntRange(1, 3).Draw(t, "epochs")
		p, err := New(docs, c)
		if err != nil {
			t.Fatal(err)
		}
		window, index := rapid.IntRange(0, p.Windows()).Draw(t, "from window"), rapid.IntRange(0, p.Batches()).Draw(t, "from index")
		for _, b := range p.Buckets() {
			var want BatchPlan
			found := false
			count := 0
			for w := window; w < p.Windows(); w++ {
				for _, x := range p.Window(w) {
					if x.Bucket != b.Name {
						continue
					}
					count++
					if !found && x.Index >= index {
						want, found = x, true
					}
				}
			}
			got, ok := p.Next(b.Name, window, index)
			if ok != found || !cmp.Equal(got, want) {
				t.Fatalf("%s from window %d, index %d: %+v %v, want %+v %v", b.Name, window, index, got, ok, want, found)
			}
			if n := p.InWindows(b.Name, window, p.Windows()+2); n != count {
				t.Fatalf("%s has %d batches from window %d on, counted %d", b.Name, n, window, count)
			}
		}
	})
}

type sizes []int

func (s sizes) Len() int         { return len(s) }
func (s sizes) Length(i int) int { return s[i] }
