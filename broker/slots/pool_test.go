package slots

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"penstock/schema"
)

func always(uint32, int) bool { return true }

func batch(window, index uint32) schema.Batch {
	return schema.Batch{Run: "test", Gen: 1, Window: window, Index: index, Bucket: "b64"}
}

func TestNewRefuses(t *testing.T) {
	j, err := CreateJournal(filepath.Join(t.TempDir(), "j"), "p", 1, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for name, cfg := range map[string]Config{
		"no name":        {Incarnation: 1, Slots: 1},
		"no incarnation": {Pool: "p", Slots: 1},
		"no slots":       {Pool: "p", Incarnation: 1},
		"other journal":  {Pool: "p", Incarnation: 1, Slots: 2, Journal: j},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: made", name)
		}
	}
}

func TestReleaseMatchesEverything(t *testing.T) {
	p, err := New(Config{Pool: "p", Incarnation: 7, Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	old, _ := p.Take(batch(0, 0), "a", always)
	p.Release(old)
	p.Take(batch(0, 1), "b", always)
	ref, ok := p.Take(batch(0, 2), "c", always) // old's slot again
	if !ok || ref.Slot != old.Slot || ref.Generation != old.Generation+1 {
		t.Fatalf("third use %+v after %+v", ref, old)
	}
	for name, wrong := range map[string]func(*schema.SlotRef){
		"pool":             func(r *schema.SlotRef) { r.Pool = "q" },
		"incarnation":      func(r *schema.SlotRef) { r.Incarnation++ },
		"slot":             func(r *schema.SlotRef) { r.Slot = 1 - r.Slot },
		"slot past end":    func(r *schema.SlotRef) { r.Slot = 2 },
		"generation":       func(r *schema.SlotRef) { r.Generation-- },
		"later generation": func(r *schema.SlotRef) { r.Generation++ },
	} {
		r := ref
		if wrong(&r); p.Release(r) {
			t.Errorf("released by another %s", name)
		}
	}
	if !p.Release(ref) || p.Release(ref) {
		t.Error("a release is to be honoured exactly once")
	}
}

// TestPool plays random histories and keeps its own books.
func TestPool(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		size := rapid.IntRange(1, 5).Draw(t, "slots")
		j, err := CreateJournal(path, "p", 9, size)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		words := make([]uint64, size)
		p, err := New(Config{Pool: "p", Incarnation: 9, Slots: size, Journal: j, Bump: func(s uint32, g uint64) {
			if g <= words[s] {
				t.Fatalf("slot %d: generation %d after %d", s, g, words[s])
			}
			words[s] = g
		}})
		if err != nil {
			t.Fatal(err)
		}
		var past []schema.SlotRef // every reference ever given out
		model := map[uint32]Use{}
		oldest := uint32(0)
		remove := func(gone []Use, should func(Use) bool) {
			for _, u := range gone {
				if model[u.Slot] != u || !should(u) {
					t.Fatalf("freed %+v", u)
				}
				delete(model, u.Slot)
			}
			for _, u := range model {
				if should(u) {
					t.Fatalf("kept %+v", u)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				b := batch(rapid.Uint32Range(oldest, oldest+2).Draw(t, "window"), rapid.Uint32Range(0, 9).Draw(t, "index"))
				free := p.Free()
				ref, ok := p.Take(b, fmt.Sprint("root", len(past)), func(w uint32, f int) bool {
					if w != b.Window || f != free {
						t.Fatalf("asked about window %d, %d free", w, f)
					}
					return f > 1 || w <= oldest
				})
				if want := free > 1 || free == 1 && b.Window <= oldest; ok != want {
					t.Fatalf("window %d of %d, %d free: taken %v", b.Window, oldest, free, ok)
				}
				if !ok {
					return
				}
				if _, busy := model[ref.Slot]; busy || words[ref.Slot] != ref.Generation {
					t.Fatalf("took %+v, which is in use or not announced", ref)
				}
				model[ref.Slot] = Use{Slot: ref.Slot, Generation: ref.Generation, Batch: b, Root: fmt.Sprint("root", len(past))}
				past = append(past, ref)
			},
			"release": func(t *rapid.T) {
				if len(past) == 0 {
					return
				}
				ref := rapid.SampledFrom(past).Draw(t, "ref")
				u, busy := model[ref.Slot]
				want := busy && u.Generation == ref.Generation
				if p.Release(ref) != want {
					t.Fatalf("release of %+v: want honoured %v", ref, want)
				}
				if want {
					delete(model, ref.Slot)
				}
			},
			"commit": func(t *rapid.T) {
				oldest++
				remove(p.FreeBefore(oldest), func(u Use) bool { return u.Batch.Window < oldest })
			},
			"new generation": func(t *rapid.T) { remove(p.FreeAll(), func(Use) bool { return true }) },
			"": func(t *rapid.T) {
				var want []Use
				for s := range uint32(size) {
					if u, busy := model[s]; busy {
						want = append(want, u)
					}
				}
				if got := p.Occupied(); !slices.Equal(got, want) || p.Free() != size-len(want) {
					t.Fatalf("occupied %+v and %d free, want %+v", got, p.Free(), want)
				}
				if got, err := ReadJournal(path); err != nil || !reflect.DeepEqual(got, Journaled{Pool: "p", Incarnation: 9, Uses: want}) {
					t.Fatalf("journal %+v, %v; want %+v", got, err, want)
				}
			},
		})
	})
}
