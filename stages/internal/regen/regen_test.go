package regen

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is what the server is asked.
type request struct {
	Model       string           `json:"model"`
	Messages    []map[string]any `json:"messages"`
	Tools       []any            `json:"tools"`
	MaxTokens   int              `json:"max_tokens"`
	Temperature float64          `json:"temperature"`
}

func (r request) last() string { return r.Messages[len(r.Messages)-1]["content"].(string) }

// serve answers as the function says: status, body.
func serve(t *testing.T, answer func(r request, h http.Header) (int, string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var r request
		if req.URL.Path != "/v1/chat/completions" || json.NewDecoder(req.Body).Decode(&r) != nil {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		status, body := answer(r, req.Header)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func says(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"choices":[{"message":{"role":"assistant","content":` + string(b) + `},"finish_reason":"stop"}]}`
}

func options(t *testing.T, endpoint string, rows ...string) Options {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "data.jsonl")
	if err := os.WriteFile(data, []byte(strings.Join(rows, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return Options{Endpoint: endpoint, Key: "secret", Model: "m", Files: []string{data}, Out: filepath.Join(dir, "out.jsonl"), Concurrency: 8, Tries: 4, MaxTokens: 99, Wait: time.Microsecond}
}

func read(t *testing.T, path string) (rows []map[string]any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		var row map[string]any
		if err := json.Unmarshal([]byte(l), &row); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	return rows
}

func content(row map[string]any, i int) any {
	return row["messages"].([]any)[i].(map[string]any)["content"]
}

func many(n int) (rows []string) {
	for i := range n {
		rows = append(rows, fmt.Sprintf(`{"messages":[{"role":"user","content":"q%d"},{"role":"assistant","content":"old"},{"role":"user","content":"again"},{"role":"assistant","content":"old too"}]}`, i))
	}
	return rows
}

// TestOrderAndRetries: a server that is slow, busy, torn and away by turns still gives every conversation, in order, each
// later answer after the new earlier one.
func TestOrderAndRetries(t *testing.T) {
	var calls, together, peak atomic.Int64
	endpoint := serve(t, func(r request, h http.Header) (int, string) {
		if n := together.Add(1); n > peak.Load() {
			peak.Store(n)
		}
		defer together.Add(-1)
		if r.Model != "m" || r.MaxTokens != 99 || h.Get("Authorization") != "Bearer secret" {
			return http.StatusUnauthorized, "who?"
		}
		switch calls.Add(1) % 7 {
		case 0:
			return http.StatusTooManyRequests, "busy"
		case 2:
			return http.StatusInternalServerError, "oh"
		case 4:
			return http.StatusOK, `{"choices":[{"mess`
		case 6:
			return http.StatusOK, `{"choices":[]}`
		}
		return http.StatusOK, says(fmt.Sprint("to ", r.last(), " after ", len(r.Messages)))
	})
	o := options(t, endpoint, many(40)...)
	o.Tries = 50
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows != 40 || r.Rewritten != 40 || r.Answers != 80 || r.Rejected != 0 || r.RejectFile != "" {
		t.Errorf("%+v", r)
	}
	for i, row := range read(t, o.Out) {
		if content(row, 0) != fmt.Sprint("q", i) || content(row, 1) != fmt.Sprintf("to q%d after 1", i) || content(row, 3) != "to again after 3" {
			t.Errorf("row %d: %v", i, row)
		}
	}
	if peak.Load() > 8 {
		t.Errorf("%d requests at a time", peak.Load())
	}
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("an output that is there: %v", err)
	}
}

// TestResume: what was done before the server went away is not asked again, and the output is the same.
func TestResume(t *testing.T) {
	var mu sync.Mutex
	asked, limit := map[string]int{}, 9
	endpoint := serve(t, func(r request, _ http.Header) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		if limit--; limit < 0 {
			return http.StatusServiceUnavailable, "gone"
		}
		asked[fmt.Sprint(r.Messages[0]["content"], len(r.Messages))]++
		return http.StatusOK, says("new " + r.last())
	})
	o := options(t, endpoint, many(20)...)
	o.Concurrency, o.Tries = 1, 2
	_, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "after 2 tries: the server answers 503: gone") || !strings.Contains(err.Error(), "4 rows are done") {
		t.Fatalf("error %v", err)
	}
	f, err := os.OpenFile(o.Out+".progress", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"messages":[{"role":"us`); err != nil { // killed while it wrote
		t.Fatal(err)
	}
	f.Close()
	other := o
	other.Model = "another"
	if _, err := Run(context.Background(), other); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Errorf("another model: %v", err)
	}
	data, err := os.ReadFile(o.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Files[0], []byte(strings.Replace(string(data), "q19", "q20", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "other data") {
		t.Errorf("data that changed: %v", err)
	}
	if err := os.WriteFile(o.Files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	limit = 1000
	mu.Unlock()
	r, err := Run(context.Background(), o)
	if err != nil || r.Resumed != 4 || r.Rewritten != 20 || r.Answers != 40 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, row := range read(t, o.Out) {
		if content(row, 1) != fmt.Sprint("new q", i) {
			t.Errorf("row %d: %v", i, row)
		}
		if q := fmt.Sprint("q", i); i != 4 && (asked[q+"1"] != 1 || asked[q+"3"] != 1) {
			t.Errorf("%s was asked %d and %d times", q, asked[q+"1"], asked[q+"3"])
		}
	}
	if left, _ := filepath.Glob(o.Out + "*"); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

// TestRows: tools are offered, their calls kept with their results; bad rows and refused ones are rejected, one by one.
func TestRows(t *testing.T) {
	endpoint := serve(t, func(r request, _ http.Header) (int, string) {
		switch r.last() {
		case "too long":
			return http.StatusBadRequest, "context length exceeded"
		case "cold":
			call := r.Messages[1]["tool_calls"].([]any)[0].(map[string]any)["function"].(map[string]any)
			if len(r.Tools) != 1 || r.Messages[1]["content"] != nil || call["arguments"] != `{"place":"Oslo"}` {
				return http.StatusTeapot, fmt.Sprint(r.Messages[1])
			}
			return http.StatusOK, `{"choices":[{"message":{"content":"It is cold.","reasoning_content":"hm"},"finish_reason":"length"}]}`
		case "call":
			return http.StatusOK, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}`
		}
		return http.StatusOK, says("ok")
	})
	o := options(t, endpoint, `{"prompt":"fine","response":"x"}`, "broken", `{"prompt":"too long","response":"x"}`, `{"input_ids":[1,2],"loss_mask":[1,1]}`,
		`{"tools":[{"type":"function","function":{"name":"w"}}],"messages":[{"role":"user","content":"Oslo?"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"w","arguments":{"place":"Oslo"}}}]},{"role":"tool","content":"cold"},{"role":"assistant","content":"x"}]}`,
		`{"prompt":"call","response":"x"}`)
	r, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows != 6 || r.Rewritten != 2 || r.Answers != 2 || r.Kept != 1 || r.Cut != 1 || r.Rejected != 4 {
		t.Errorf("%+v", r)
	}
	rows := read(t, o.Out)
	if content(rows[0], 1) != "ok" || content(rows[1], 3) != "It is cold." || content(rows[1], 1) != nil || rows[1]["messages"].([]any)[3].(map[string]any)["reasoning_content"] != "hm" || rows[1]["tools"] == nil {
		t.Errorf("%v", rows)
	}
	for i, want := range []string{"broken JSON", "context length exceeded", "tokens, not messages", "calls a tool"} {
		if row := read(t, r.RejectFile)[i]; !strings.Contains(row["reason"].(string), want) || row["line"] == nil || row["file"] != o.Files[0] {
			t.Errorf("reject %v, want %q", row, want)
		}
	}
}

func TestStops(t *testing.T) {
	endpoint := serve(t, func(r request, _ http.Header) (int, string) { return http.StatusUnauthorized, "no key" })
	if _, err := Run(context.Background(), options(t, endpoint, many(3)...)); err == nil || !strings.Contains(err.Error(), "401: no key") {
		t.Errorf("a wrong key: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	slow := serve(t, func(request, http.Header) (int, string) { cancel(); return http.StatusServiceUnavailable, "" })
	o := options(t, slow, many(3)...)
	o.Wait = time.Hour
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	for want, change := range map[string]func(o *Options){
		"is no address": func(o *Options) { o.Endpoint = "localhost:8000" }, "no model": func(o *Options) { o.Model = "" },
		"name data files": func(o *Options) { o.Files = nil }, "at least 1": func(o *Options) { o.Concurrency = 0 },
		"no such file": func(o *Options) { o.Files = []string{"/none"} },
	} {
		o := options(t, endpoint, many(1)...)
		change(&o)
		if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(says("x")))
	f.Add([]byte(`{"choices":[{"message":{"content":null,"tool_calls":[{}]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, _, err := parseAnswer(text)
		if err == nil && m.NoContent && len(m.ToolCalls) == 0 && m.Reasoning == "" {
			t.Fatalf("%q gives an empty answer", text)
		}
	})
}
