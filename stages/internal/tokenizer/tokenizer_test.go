package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"
)

const demo = "../../../deploy/demo"

func loadTiny(tb testing.TB) *Tokenizer {
	tb.Helper()
	t, err := Load(filepath.Join(demo, "models/tiny-go/tokenizer.json"))
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// golden reads {text, ids} pairs of an independent implementation.
func golden(tb testing.TB) (cases []struct {
	Text string
	IDs  []int32
}) {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(demo, "golden/tiny-go/tokenizer.json"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		tb.Fatal(err)
	}
	if len(cases) == 0 {
		tb.Fatal("no golden cases")
	}
	return cases
}

func TestGolden(t *testing.T) {
	tok := loadTiny(t)
	for _, c := range golden(t) {
		if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("Encode(%q)\n got %v\nwant %v", c.Text, got, c.IDs)
		}
		if got, want := tok.Decode(c.IDs), norm.NFC.String(c.Text); got != want {
			t.Errorf("Decode(%v) = %q, want %q", c.IDs, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	tok := loadTiny(t)
	if n := tok.VocabSize(); n != 2048 {
		t.Errorf("VocabSize() = %d, want 2048", n)
	}
	for token, want := range map[string]int32{"!": 0, "<|im_end|>": 2046, "<|mask|>": 2047} {
		if id, ok := tok.ID(token); !ok || id != want {
			t.Errorf("ID(%q) = %d, %t, want %d", token, id, ok, want)
		}
	}
	if id, ok := tok.ID("<|nothing|>"); ok {
		t.Errorf("ID of a token that is not there = %d", id)
	}
	if got := tok.Decode([]int32{-1, 0, 2048, 2046}); got != "!<|im_end|>" {
		t.Errorf("Decode with ids outside the vocabulary = %q", got)
	}
	want := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|mask|>"}
	if got := tok.Specials(); !slices.Equal(got, want) {
		t.Errorf("Specials() = %q, want %q", got, want)
	}
}

func TestConcurrentEncode(t *testing.T) {
	tok := loadTiny(t)
	cases := golden(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, c := range cases {
				if got := tok.Encode(c.Text); !slices.Equal(got, c.IDs) {
					t.Errorf("Encode(%q) = %v beside others, want %v", c.Text, got, c.IDs)
				}
			}
		})
	}
	wg.Wait()
}

// TestLongPiece would not end within the test's time if merging one long piece were quadratic.
func TestLongPiece(t *testing.T) {
	tok := loadTiny(t)
	text := strings.Repeat("abcdefghij", 100_000)
	if got := tok.Decode(tok.Encode(text)); got != text {
		t.Error("a long word does not come back")
	}
}

func FuzzRoundTrip(f *testing.F) {
	tok := loadTiny(f)
	for _, c := range golden(f) {
		f.Add(c.Text)
	}
	f.Add("<|im_end|>\u0338 \xff\xfe<|im_start|>e\u0301")
	f.Add("a" + strings.Repeat("\u0316\u0301", 40))
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode(text)
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("Encode(%q) gives id %d outside the vocabulary", text, id)
			}
		}
		got := tok.Decode(ids)
		// A mark after an added token stays apart from it, so that only the whole is in form C again.
		if nfc(got) != nfc(text) {
			t.Errorf("Decode(Encode(%q)) = %q", text, got)
		}
		if !strings.Contains(text, "<|") && got != nfc(text) {
			t.Errorf("Decode(Encode(%q)) = %q, want form C", text, got)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := loadTiny(b)
	data, err := os.ReadFile(filepath.Join(demo, "data/tiny-go-chat.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	text := string(data[:1<<20])
	b.SetBytes(int64(len(text)))
	tokens, start := 0, cpuTime(b)
	for b.Loop() {
		tokens += len(tok.Encode(text))
	}
	b.ReportMetric(float64(tokens)/1e6/(cpuTime(b)-start), "Mtok/cpu-s")
}

// cpuTime is the processor time of this process in seconds, which other processes do not lengthen.
func cpuTime(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
