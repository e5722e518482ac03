package prepare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"penstock/schema/store"
)

const demo = "../../../deploy/demo"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write puts a data file into a new folder.
func write(tb testing.TB, lines ...string) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "data.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func options(tb testing.TB, files ...string) Options {
	tb.Helper()
	return Options{Files: files, ModelDir: filepath.Join(demo, "models/tiny-go"), MaxLength: 512, OutDir: filepath.Join(tb.TempDir(), "stores")}
}

func open(tb testing.TB, path string) *store.Store {
	tb.Helper()
	s, err := store.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	if err := s.Verify(context.Background()); err != nil {
		tb.Fatal(err)
	}
	return s
}

func row(contents ...string) string {
	var messages []map[string]string
	for i, c := range contents {
		messages = append(messages, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": c})
	}
	b, err := json.Marshal(map[string]any{"id": "x", "messages": messages})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestGolden prepares the golden conversations and finds their ids and masks in the store, in order.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(demo, "golden/tiny-go/chat.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Messages json.RawMessage `json:"messages"`
		IDs      []int32         `json:"ids"`
		Mask     []int           `json:"assistant_mask"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range cases {
		var line bytes.Buffer
		if err := json.Compact(&line, c.Messages); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, `{"messages":`+line.String()+`}`)
	}
	o := options(t, write(t, lines...))
	o.MaxLength = 4096
	r, err := Prepare(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, r.Store)
	if s.Len() != len(cases) || r.Rejected != 0 || r.Cut != 0 {
		t.Fatalf("%d documents of %d, report %+v", s.Len(), len(cases), r)
	}
	for i, c := range cases {
		ids, mask := s.Doc(i)
		if !slices.Equal(ids, c.IDs) {
			t.Errorf("document %d has ids %v, want %v", i, ids, c.IDs)
		}
		for j, m := range c.Mask {
			if mask.At(j) != (m == 1) {
				t.Errorf("document %d, token %d: mask %t", i, j, mask.At(j))
				break
			}
		}
	}
}

// TestDemo prepares the whole demo data with one worker and with several: the same bytes, and a report that adds up.
func TestDemo(t *testing.T) {
	var stores [][]byte
	for _, workers := range []int{1, 4} {
		o := options(t, filepath.Join(demo, "data/tiny-go-chat.jsonl"))
		o.Workers, o.MaxLength = workers, 4096
		r, err := Prepare(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Rows != 6000 || r.Documents != 6000 || r.Rejected != 0 || r.RejectFile != "" || r.Reused || r.Repeated != 0 {
			t.Errorf("report %+v", r)
		}
		if r.Supervised < 0.3 || r.Supervised > 0.9 {
			t.Errorf("%.2f of the tokens are supervised", r.Supervised)
		}
		for name, list := range map[string][]Range{"lengths": r.Lengths, "buckets": r.Buckets} {
			documents, tokens := 0, 0
			for _, x := range list {
				documents += x.Documents
				tokens += x.Tokens
			}
			if documents != r.Documents || tokens != r.Tokens {
				t.Errorf("the %s %+v hold %d documents, %d tokens of %d, %d", name, list, documents, tokens, r.Documents, r.Tokens)
			}
		}
		if len(r.Buckets) != 4 {
			t.Errorf("buckets %+v", r.Buckets)
		}
		b, err := os.ReadFile(r.Store)
		if err != nil {
			t.Fatal(err)
		}
		stores = append(stores, b)
	}
	if !bytes.Equal(stores[0], stores[1]) {
		t.Error("the number of workers changes the store")
	}
}

func TestRejects(t *testing.T) {
	good := row("Say hello.", "func main() {}")
	lines := []string{
		"\ufeff" + good,
		`{"messages":`,
		"",
		`[1,2]`,
		`{"conversations":[{"from":"human","value":"x"}]}`,
		`{"messages":[]}`,
		`{"messages":"x"}`,
		`{"messages":[{"content":"x"}]}`,
		`{"messages":[{"role":"assistant"}]}`,
		`{"messages":[{"role":"assistant","content":[{"type":"image"}]}]}`,
		`{"messages":[{"role":"robot","content":"x"}]}`,
		`{"messages":[{"role":"user","content":"x"}]}`,
		`{"messages":[{"role":"assistant","content":"x","tool_calls":[{"id":"f"}]}]}`,
		`{"messages":[{"role":"assistant","content":"x"}],"tools":{"name":"f"}}`,
		"{\"messages\":[{\"role\":\"assistant\",\"content\":\"\xff\"}]}",
		row("x", ""), // its end of turn alone
		row(strings.Repeat("long words ", 600), "never reached"),
		`{"tools":[],"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":"two words","tool_calls":null}]}`,
		row("short", strings.Repeat("cut somewhere ", 600)),
		good,
	}
	path := write(t, lines...)
	r, err := Prepare(context.Background(), options(t, path))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{NotJSON: 2, NoMessages: 1, BadMessage: 4, UnknownRole: 1, NoAssistant: 2, ToolCalls: 2, NotUTF8: 1, NoAnchor: 2}
	if !reflect.DeepEqual(r.Rejects, want) {
		t.Errorf("rejects %v, want %v", r.Rejects, want)
	}
	if r.Rows != 19 || r.Documents != 3 || r.Cut != 1 || r.Repeated != 1 || r.Rejected != 15 {
		t.Errorf("report %+v", r)
	}
	s := open(t, r.Store)
	if s.Len() != 3 || s.Length(2) != 512 {
		t.Errorf("%d documents, the cut one of %d tokens", s.Len(), s.Length(2))
	}
	if s.Key(0) == s.Key(2) || s.Key(0) == s.Key(1) {
		t.Error("two documents have one key")
	}
	data, err := os.ReadFile(r.RejectFile)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for line := range strings.Lines(string(data)) {
		var x rejected
		if err := json.Unmarshal([]byte(line), &x); err != nil || x.File != path || x.Reason == "" || x.Detail == "" {
			t.Errorf("reject line %q: %v", line, err)
		}
		got = append(got, x.Line)
	}
	if !slices.Equal(got, []int{2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}) {
		t.Errorf("rejected lines %v", got)
	}
}

func TestReuse(t *testing.T) {
	o := options(t, write(t, row("a", "b c d"), "broken", row("e", "f g h")), write(t, row("i", "j k l")))
	first, err := Prepare(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Prepare(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !again.Reused {
		t.Error("the store is prepared twice")
	}
	again.Reused, again.Seconds = false, first.Seconds
	if !reflect.DeepEqual(again, first) {
		t.Errorf("the report of the reused store is %+v, want %+v", again, first)
	}
	whole, err := os.ReadFile(first.Store)
	if err != nil {
		t.Fatal(err)
	}
	altered := slices.Clone(whole)
	altered[260] ^= 1
	for name, damaged := range map[string][]byte{"torn": whole[:len(whole)/2], "altered": altered} {
		if err := os.WriteFile(first.Store, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		mended, err := Prepare(context.Background(), o)
		if err != nil || mended.Reused {
			t.Errorf("%s store: %+v, %v", name, mended, err)
		}
		if b, err := os.ReadFile(first.Store); err != nil || !bytes.Equal(b, whole) {
			t.Errorf("%s store is not what it was: %v", name, err)
		}
	}
	for name, edit := range map[string]func(o *Options){
		"length": func(o *Options) { o.MaxLength++ },
		"order":  func(o *Options) { o.Files = []string{o.Files[1], o.Files[0]} },
		"data":   func(o *Options) { o.Files = o.Files[:1] },
	} {
		other := o
		edit(&other)
		if r, err := Prepare(context.Background(), other); err != nil || r.Store == first.Store {
			t.Errorf("another %s gives the same store: %v", name, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	good := write(t, row("a", "b c d"))
	for _, c := range []struct {
		name string
		edit func(o *Options)
		says string
	}{
		{"no files", func(o *Options) { o.Files = nil }, "no data files"},
		{"no length", func(o *Options) { o.MaxLength = 1 }, "maximum length is 1"},
		{"missing file", func(o *Options) { o.Files = append(o.Files, "none.jsonl") }, "none.jsonl"},
		{"empty folder", func(o *Options) { o.Files = []string{filepath.Join(demo, "models")} }, "holds no data file"},
		{"empty pattern", func(o *Options) { o.Files = []string{"*.jsonl"} }, `pattern "*.jsonl" matches no file`},
		{"policy", func(o *Options) { o.Turns = "first" }, `turns: "first"`},
		{"share", func(o *Options) { o.HeldOut = 1 }, "held-out share is 1"},
		{"no model", func(o *Options) { o.ModelDir = demo }, "tokenizer.json"},
		{"no rows", func(o *Options) { o.Files = []string{write(t, "", " ")} }, "there are no rows"},
		{"no good rows", func(o *Options) { o.Files = []string{write(t, "x", row("a"))} }, "none of 2 rows can be trained on (broken JSON: 1, no assistant: 1)"},
		{"the first bad row", func(o *Options) { o.Files = []string{write(t, "x")} }, ".jsonl:1: invalid character 'x'"},
		{"buckets", func(o *Options) { o.Buckets = "9,8" }, "does not rise"},
	} {
		o := options(t, good)
		c.edit(&o)
		_, err := Prepare(context.Background(), o)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want one that says %q", c.name, err, c.says)
		}
		left, _ := filepath.Glob(filepath.Join(o.OutDir, ".aside-*"))
		stores, _ := filepath.Glob(filepath.Join(o.OutDir, "*.store"))
		if len(left) > 0 || c.name != "buckets" && len(stores) > 0 {
			t.Errorf("%s leaves %v %v", c.name, left, stores)
		}
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := options(t, filepath.Join(demo, "data/tiny-go-chat.jsonl"))
	if _, err := Prepare(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("prepare with an ended context: %v", err)
	}
}

func TestOrdered(t *testing.T) {
	const n = 500
	count := func(ctx context.Context, emit func(int) error) error {
		for i := range n {
			if err := emit(i); err != nil {
				return err
			}
		}
		return nil
	}
	double := func(i int) int { return 2 * i }
	var got []int
	err := Ordered(context.Background(), 3, count, double, func(i int) error { got = append(got, i); return nil })
	if err != nil || len(got) != n {
		t.Fatalf("%d results, %v", len(got), err)
	}
	for i, x := range got {
		if x != 2*i {
			t.Fatalf("result %d is %d", i, x)
		}
	}
	boom := errors.New("boom")
	err = Ordered(context.Background(), 3, count, double, func(i int) error {
		if i == 100 {
			return boom
		}
		return nil
	})
	if !errors.Is(err, boom) {
		t.Errorf("a consumer's error gives %v", err)
	}
	err = Ordered(context.Background(), 3, func(ctx context.Context, emit func(int) error) error {
		return errors.Join(emit(1), boom)
	}, double, func(int) error { return nil })
	if !errors.Is(err, boom) {
		t.Errorf("a producer's error gives %v", err)
	}
}

func FuzzParseRow(f *testing.F) {
	f.Add([]byte(row("a", "b")))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"text","text":"x"}],"reasoning_content":"y"}],"tools":null}`))
	f.Add([]byte(`{"messages":{}}`))
	f.Add([]byte(`{"conversations":[{"from":"gpt","value":"x"}],"tools":"[]"}`))
	f.Add([]byte(`{"prompt":"a","response":"b","input":"c","system":"d"}`))
	f.Add([]byte(`{"input_ids":[1,2,3],"labels":[-100,2,3]}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, no := parseRow(rawRow{line: 1, data: data})
		if no != nil {
			if no.reason == "" || no.detail == "" {
				t.Fatalf("%q is refused without a reason: %+v", data, no)
			}
			return
		}
		if len(s.talk.Messages) == 0 && len(s.ids) == 0 || len(s.ids) != len(s.mask) {
			t.Fatalf("%q gives nothing and no reason", data)
		}
		for _, m := range s.talk.Messages {
			if roles[m.Role] != m.Role {
				t.Fatalf("%q gives %+v", data, m)
			}
		}
	})
}

func BenchmarkPrepare(b *testing.B) {
	path := filepath.Join(demo, "data/tiny-go-chat.jsonl")
	tokens, start := 0, cpuTime(b)
	for b.Loop() {
		r, err := Prepare(context.Background(), options(b, path))
		if err != nil {
			b.Fatal(err)
		}
		tokens += r.Tokens
	}
	b.ReportMetric(float64(tokens)/1e6/(cpuTime(b)-start), "Mtok/cpu-s")
}

func ExampleReport() {
	r := Report{Rows: 2, Rejected: 2, Rejects: map[string]int{NotJSON: 2}, RejectFile: "r.jsonl"}
	fmt.Println(r.nothingLeft(Options{Files: []string{"a.jsonl"}}))
	// Output: prepare a.jsonl: none of 2 rows can be trained on (broken JSON: 2); each is explained in r.jsonl
}
