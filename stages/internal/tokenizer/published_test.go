//go:build tokenizers

package tokenizer

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// published lists the tokenizers and the cases that deploy/tools/tokenizers/compare.sh makes.
func published(tb testing.TB) (names []string, dir string) {
	tb.Helper()
	dir = os.Getenv("PENSTOCK_TOKENIZERS")
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no cases in %q: run deploy/tools/tokenizers/compare.sh", dir)
	}
	for _, f := range files {
		names = append(names, f[:len(f)-len(".jsonl")])
	}
	return names, dir
}

func cases(tb testing.TB, name string, each func(text string, ids []int32)) {
	tb.Helper()
	f, err := os.Open(name + ".jsonl")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	for d := json.NewDecoder(bufio.NewReader(f)); d.More(); {
		var c struct {
			Text string  `json:"text"`
			IDs  []int32 `json:"ids"`
		}
		if err := d.Decode(&c); err != nil {
			tb.Fatal(err)
		}
		each(c.Text, c.IDs)
	}
}

// TestPublished encodes thousands of hard strings with the tokenizers of published models as the Rust implementation does.
func TestPublished(t *testing.T) {
	names, _ := published(t)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			tok, err := Load(name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			total, wrong := 0, 0
			cases(t, name, func(text string, ids []int32) {
				total++
				if got := tok.Encode(text); !slices.Equal(got, ids) {
					if wrong++; wrong <= 5 {
						t.Errorf("Encode(%q)\n got %v\nwant %v", text, got, ids)
					}
				}
			})
			t.Logf("%d strings, %d differ", total, wrong)
			if wrong > 0 || total < 4000 {
				t.Errorf("%d of %d strings differ", wrong, total)
			}
		})
	}
}

// BenchmarkPublished encodes English with code in it on one core.
func BenchmarkPublished(b *testing.B) {
	names, _ := published(b)
	data, err := os.ReadFile(filepath.Join(demo, "data/tiny-go-chat.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range names {
		tok, err := Load(name + ".json")
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filepath.Base(name), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			var ids []int32
			tokens, start := 0, cpuTime(b)
			for b.Loop() {
				ids = tok.AppendEncode(ids[:0], string(data))
				tokens += len(ids)
			}
			b.ReportMetric(float64(tokens)/1e6/(cpuTime(b)-start), "Mtok/cpu-s")
		})
	}
}
