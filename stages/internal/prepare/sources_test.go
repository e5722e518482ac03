package prepare

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"
)

func TestChangedFile(t *testing.T) {
	path := write(t, row("a", "b c d"))
	sum, err := sumFile(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(row("a", "other")), 0o600); err != nil {
		t.Fatal(err)
	}
	err = readChunks(context.Background(), dataFile{path, sum}, func(chunk) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("a file that changed: %v", err)
	}
}

// parsed is what a good row holds.
func parsed(t *testing.T, text string) sample {
	t.Helper()
	s, no := parseRow(rawRow{line: 1, data: []byte(text)})
	if no != nil {
		t.Fatalf("%s: %v", text, no)
	}
	return s
}

// TestForms: every form of a row gives the same conversation.
func TestForms(t *testing.T) {
	want := parsed(t, `{"messages":[{"role":"user","content":"a?"},{"role":"assistant","content":"b."}]}`)
	for _, text := range []string{
		`{"conversations":[{"from":"human","value":"a?"},{"from":"gpt","value":"b."}],"id":3}`,
		`{"conversations":[{"role":"user","content":"a?"},{"role":"assistant","content":"b."}]}`,
		`{"prompt":"a?","response":"b."}`,
		`{"prompt":"a?","completion":"b.","input":""}`,
		`{"instruction":"a?","output":"b.","input":null,"system":""}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"?"}]},{"role":"assistant","content":"b.","tool_calls":[]}],"tools":"[]"}`,
	} {
		if got := parsed(t, text); !reflect.DeepEqual(got, want) || got.hash() != want.hash() {
			t.Errorf("%s gives %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{
		`{"system":"s","conversations":[{"from":"human","value":"a?"},{"from":"gpt","value":"b."}]}`,
		`{"system":"s","prompt":"a?","response":"b."}`,
		`{"system":"other","messages":[{"role":"system","content":"s"},{"role":"user","content":"a?"},{"role":"assistant","content":"b."}]}`,
	} {
		if m := parsed(t, text).talk.Messages; len(m) != 3 || m[0].Role != "system" || m[0].Content != "s" {
			t.Errorf("%s gives %+v", text, m)
		}
	}
	for _, key := range []string{"reasoning_content", "reasoning", "thinking"} {
		if m := parsed(t, `{"messages":[{"role":"assistant","content":"b.","`+key+`":"hm"}]}`).talk.Messages; m[0].Reasoning != "hm" {
			t.Errorf("%s gives %+v", key, m)
		}
	}
	more := parsed(t, `{"instruction":"a?","input":"x","output":"b.","system":"s"}`)
	if m := more.talk.Messages; len(m) != 3 || m[0].Content != "s" || m[1].Content != "a?\n\nx" {
		t.Errorf("%+v", m)
	}
}

// TestToolForms: tools and arguments kept as text become what templates expect, in the order of their keys.
func TestToolForms(t *testing.T) {
	var hashes []uint64
	for _, text := range []string{
		`{"tools":[{"z":1,"a":2}],"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":{"y":1,"b":2.5}}}]},{"role":"tool","content":"ok","tool_call_id":"1"}]}`,
		`{"tools":"[{\"z\":1,\"a\":2}]","messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"y\":1,\"b\":2.5}"}}]},{"role":"tool","content":"ok","tool_call_id":"1"}]}`,
		`{"tools":[{"z":1,"a":2}],"messages":[{"role":"assistant","tool_calls":"[{\"id\":\"1\",\"name\":\"f\",\"arguments\":{\"y\":1,\"b\":2.5}}]"},{"role":"tool","content":"ok","tool_call_id":"1"}]}`,
	} {
		s := parsed(t, text)
		if got := string(s.talk.Messages[0].ToolCalls); got != `[{"id":"1","type":"function","function":{"name":"f","arguments":{"y":1,"b":2.5}}}]` {
			t.Errorf("calls %s", got)
		}
		if got := string(s.talk.Tools); got != `[{"z":1,"a":2}]` {
			t.Errorf("tools %s", got)
		}
		if !s.talk.Messages[0].NoContent || s.talk.Messages[1].ToolCallID != "1" {
			t.Errorf("%+v", s.talk.Messages)
		}
		hashes = append(hashes, s.hash())
	}
	if hashes[0] != hashes[1] || hashes[0] != hashes[2] {
		t.Errorf("hashes %x", hashes)
	}
}

func TestTokenRows(t *testing.T) {
	path := write(t, `{"input_ids":[5,6,7,8],"loss_mask":[0,1,1,0]}`, `{"input_ids":[5,6,7,9],"labels":[-100,6,7,-100]}`,
		`{"input_ids":[5,6,7]}`, `{"input_ids":[5,6,7],"labels":[6,7,-100]}`, `{"input_ids":[5,6],"loss_mask":[1]}`,
		`{"input_ids":[5,999999],"loss_mask":[1,1]}`, `{"input_ids":[5,6],"loss_mask":[1,2]}`, `{"input_ids":["x"],"loss_mask":[1]}`)
	r, err := Prepare(context.Background(), options(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if r.Documents != 2 || r.Rejects[BadTokens] != 6 {
		t.Errorf("%+v", r)
	}
	s := open(t, r.Store)
	for i, want := range [][]int32{{5, 6, 7, 8}, {5, 6, 7, 9}} {
		ids, mask := s.Doc(i)
		if !slices.Equal(ids, want) || !slices.Equal(mask.AppendTo(nil), []uint8{0, 1, 1, 0}) {
			t.Errorf("document %d: %v %v", i, ids, mask.AppendTo(nil))
		}
	}
}

// TestContainers: plain, gzip, zstd and Parquet files of the same rows give the same documents.
func TestContainers(t *testing.T) {
	dir := t.TempDir()
	var lines []string
	type message struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type line struct {
		ID       *int64    `parquet:"id,optional"`
		Messages []message `parquet:"messages,list"`
		Tools    *string   `parquet:"tools,optional"`
	}
	var rows []line
	for i := range 700 {
		user, answer := fmt.Sprintf("number %d?", i), strings.Repeat(fmt.Sprintf("it is %d. ", i), 1+i%7)
		lines = append(lines, row(user, answer))
		rows = append(rows, line{Messages: []message{{"user", user}, {"assistant", answer}}})
	}
	plain := []byte(strings.Join(lines, "\n"))
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(plain)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"a.jsonl": plain, "b.jsonl.gz": zipped.Bytes(), "c.jsonl.zst": e.EncodeAll(plain, nil), ".hidden.jsonl": []byte("x"), "notes.txt": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := parquet.WriteFile(filepath.Join(dir, "d.parquet"), rows); err != nil {
		t.Fatal(err)
	}
	var want []uint64
	for _, name := range []string{"a.jsonl", "b.jsonl.gz", "c.jsonl.zst", "d.parquet", "*.parquet"} {
		r, err := Prepare(context.Background(), options(t, filepath.Join(dir, name)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if s := open(t, r.Store); r.Documents != 700 || want != nil && s.Key(699) != want[699] {
			t.Errorf("%s: %+v", name, r)
		} else if want == nil {
			for i := range s.Len() {
				want = append(want, s.Key(i))
			}
		}
	}
	r, err := Prepare(context.Background(), options(t, dir))
	if err != nil || r.Documents != 700 || r.Repeated != 3*700 {
		t.Errorf("the folder: %+v, %v", r, err)
	}
	for name, data := range map[string][]byte{"torn.jsonl.gz": zipped.Bytes()[:zipped.Len()/2], "bad.jsonl.gz": []byte("plain"), "bad.jsonl.zst": []byte("plain"), "bad.parquet": []byte("PAR1 no PAR1")} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Prepare(context.Background(), options(t, path)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOddColumns: a Parquet column that is not read may hold what JSON has no word for; where one that is read does, the
// row is rejected and the rest goes on.
func TestOddColumns(t *testing.T) {
	type line struct {
		Prompt   string   `parquet:"prompt"`
		Response string   `parquet:"response"`
		Tools    *float64 `parquet:"tools,optional"`
		Score    float32  `parquet:"score"`
		Picture  []byte   `parquet:"picture"`
	}
	nan := math.NaN()
	path := filepath.Join(t.TempDir(), "a.parquet")
	if err := parquet.WriteFile(path, []line{{"a?", "b c d", nil, float32(nan), []byte{0xff}}, {"e?", "f g h", &nan, 1, nil}, {"i?", "j k l", nil, float32(math.Inf(1)), nil}}); err != nil {
		t.Fatal(err)
	}
	r, err := Prepare(context.Background(), options(t, path))
	if err != nil || r.Documents != 2 || r.Rejects[NotJSON] != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if b, err := os.ReadFile(r.RejectFile); err != nil || !bytes.Contains(b, []byte(`"line":2,`)) || !bytes.Contains(b, []byte("NaN")) {
		t.Errorf("rejects %s, %v", b, err)
	}
}

// TestHugeRows: a row over the limit is rejected unread, and the rows around it are read.
func TestHugeRows(t *testing.T) {
	text := io.MultiReader(strings.NewReader(row("a", "b")+"\n"), strings.NewReader(strings.Repeat("x", maxRow+1)+"\n\n"), strings.NewReader(row("c", "d")))
	var got []rawRow
	err := readLines("huge.jsonl", text, func(c chunk) error { got = append(got, c.rows...); return nil })
	if err != nil || len(got) != 3 || got[2].line != 4 || len(got[1].data) != 0 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	for i, want := range []string{"", TooLong, ""} {
		if _, no := parseRow(got[i]); (no == nil) != (want == "") || no != nil && no.reason != want {
			t.Errorf("line %d: %v, want %q", got[i].line, no, want)
		}
	}
}

// TestHeldOut: the split depends on a document's text alone, and both sides are disjoint and whole.
func TestHeldOut(t *testing.T) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, row(fmt.Sprintf("what is %d?", i), fmt.Sprintf("a number %d", i)))
	}
	held := func(lines []string) map[string]bool {
		o := options(t, write(t, lines...))
		o.HeldOut = 0.2
		r, err := Prepare(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(r.PromptFile)
		if err != nil {
			t.Fatal(err)
		}
		var prompts []heldPrompt
		if err := json.Unmarshal(b, &prompts); err != nil {
			t.Fatal(err)
		}
		if r.Documents+r.HeldOut != len(lines) || r.HeldOut != len(prompts) {
			t.Errorf("%+v, %d prompts", r, len(prompts))
		}
		out := map[string]bool{}
		for _, p := range prompts {
			out[p.Prompt] = true
		}
		return out
	}
	all, some := held(lines), held(lines[500:])
	if n := len(all); n < 150 || n > 250 {
		t.Errorf("%d of 1000 are held out", n)
	}
	for i, l := range lines[500:] {
		prompt := parsed(t, l).prompt()
		if all[prompt] != some[prompt] {
			t.Errorf("document %d changes sides with the rest of the data", 500+i)
		}
	}
}

// TestResume: a preparation that is interrupted goes on after its last whole part, to the same store.
func TestResume(t *testing.T) {
	var lines []string
	for i := range 2400 {
		lines = append(lines, row(fmt.Sprintf("what is %d?", i%1900), strings.Repeat(fmt.Sprintf("it is %d. ", i%1900), 70)))
		if i%500 == 3 {
			lines = append(lines, "broken")
		}
	}
	o := options(t, write(t, lines...))
	o.HeldOut, o.partChunks = 0.05, 1
	whole, err := Prepare(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(whole.Store)
	if err != nil {
		t.Fatal(err)
	}
	rejects, err := os.ReadFile(whole.RejectFile)
	if err != nil {
		t.Fatal(err)
	}
	o.OutDir = filepath.Join(t.TempDir(), "stores")
	src, err := openSource(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	to := placeOf(o.OutDir, src.info)
	p, err := openParts(src, to.parts)
	if err != nil {
		t.Fatal(err)
	}
	stop, n := errors.New("killed"), 0
	err = readChunks(context.Background(), src.files[0], func(c chunk) error {
		if n == 3 {
			return stop
		}
		var docs []document
		for _, row := range c.rows {
			docs = append(docs, src.document(row))
		}
		n++
		return p.add(n-1, c.file, docs)
	})
	p.abort()
	if !errors.Is(err, stop) || p.done != 2 {
		t.Fatalf("%d whole parts, %v", p.done, err)
	}
	again, err := Prepare(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(again.Store)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the resumed store differs, %v", err)
	}
	if b, err := os.ReadFile(again.RejectFile); err != nil || !bytes.Equal(b, rejects) {
		t.Errorf("the resumed reject file differs, %v", err)
	}
	again.Store, again.RejectFile, again.PromptFile, again.Seconds = whole.Store, whole.RejectFile, whole.PromptFile, whole.Seconds
	if !reflect.DeepEqual(again, whole) || whole.Repeated != 500 || whole.Rejected != 5 {
		t.Errorf("report %+v, want %+v", again, whole)
	}
	if left, _ := filepath.Glob(filepath.Join(o.OutDir, "*.parts")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// BenchmarkParse reads rows without tokenising them.
func BenchmarkParse(b *testing.B) {
	data, err := os.ReadFile(filepath.Join(demo, "data/tiny-go-chat.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	start := cpuTime(b)
	for b.Loop() {
		for i, l := range lines {
			if _, no := parseRow(rawRow{line: i, data: l}); no != nil {
				b.Fatal(no)
			}
		}
	}
	b.ReportMetric(float64(b.N*len(data))/1e6/(cpuTime(b)-start), "MB/cpu-s")
}

// cpuTime is the processor time of this process in seconds, which other processes do not lengthen.
func cpuTime(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
