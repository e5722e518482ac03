package observe_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// jaegerTrace is what Jaeger's query API says of a trace.
type jaegerTrace struct {
	TraceID   string
	Spans     []jaegerSpan
	Processes map[string]struct{ ServiceName string }
}

type jaegerSpan struct {
	TraceID, SpanID, OperationName, ProcessID string
	References                                []jaegerReference
	Tags                                      []jaegerTag
}

type jaegerReference struct{ RefType, TraceID, SpanID string }

type jaegerTag struct {
	Key, Type string
	Value     any
}

// answered reads the data of an answer of the query API.
func answered[T any](from io.Reader) (T, error) {
	var answer struct{ Data T }
	err := json.NewDecoder(from).Decode(&answer)
	return answer.Data, err
}

// whole holds a trace against what a batch goes through: every span below the one that built it, of every stage, and all
// about the same batch.
func (tr jaegerTrace) whole() error {
	byID := map[string]jaegerSpan{}
	for _, s := range tr.Spans {
		byID[s.SpanID] = s
	}
	var names, services []string
	for _, s := range tr.Spans {
		names, services = append(names, s.OperationName), append(services, tr.Processes[s.ProcessID].ServiceName)
		if s.TraceID != tr.TraceID {
			return fmt.Errorf("trace %s: %s is of trace %s", tr.TraceID, s.OperationName, s.TraceID)
		}
		if err := s.below(byID); err != nil {
			return fmt.Errorf("trace %s: %w", tr.TraceID, err)
		}
		if err := s.alike(tr.Spans[0]); err != nil {
			return fmt.Errorf("trace %s: %w", tr.TraceID, err)
		}
	}
	for _, want := range []string{"build", "queue", "credit wait", "slot wait", "forward", "pack", "copy", "train", "commit", "acknowledge"} {
		if !slices.Contains(names, want) {
			return fmt.Errorf("trace %s has no %s", tr.TraceID, want)
		}
	}
	for _, want := range []string{"penstock-batch", "penstock-target", "penstock-pack", "penstock-draft"} {
		if !slices.Contains(services, want) {
			return fmt.Errorf("trace %s has nothing of %s", tr.TraceID, want)
		}
	}
	return nil
}

// below holds a span's parent against what it has to be, and against it that a root has one.
func (s jaegerSpan) below(byID map[string]jaegerSpan) error {
	if s.OperationName == "build" {
		if len(s.References) > 0 {
			return fmt.Errorf("build is below %v", s.References)
		}
		return nil
	}
	if len(s.References) != 1 || s.References[0].RefType != "CHILD_OF" || s.References[0].TraceID != s.TraceID {
		return fmt.Errorf("%s is below %v, want one parent in its trace", s.OperationName, s.References)
	}
	parent, ok := byID[s.References[0].SpanID]
	if want := parents[s.OperationName]; !ok || want != "" && parent.OperationName != want {
		return fmt.Errorf("parent of %s is %q, want %q", s.OperationName, parent.OperationName, want)
	}
	return nil
}

// alike holds a span's attributes against those of another span of its batch.
func (s jaegerSpan) alike(other jaegerSpan) error {
	for key, kind := range map[string]string{"penstock.bucket": "string", "penstock.window": "int64", "penstock.tokens": "int64"} {
		tag := s.tag(key)
		empty := tag.Value == nil || tag.Value == "" || key == "penstock.tokens" && tag.Value == 0.0
		if tag.Type != kind || empty || tag.Value != other.tag(key).Value {
			return fmt.Errorf("%s of %s is %v (%s), and %v of %s", key, s.OperationName, tag.Value, tag.Type, other.tag(key).Value, other.OperationName)
		}
	}
	return nil
}

func (s jaegerSpan) tag(key string) jaegerTag {
	if i := slices.IndexFunc(s.Tags, func(t jaegerTag) bool { return t.Key == key }); i >= 0 {
		return s.Tags[i]
	}
	return jaegerTag{}
}

// TestWholeTracesInJaeger holds what TestJaeger asks of a trace against an answer of that form and against damaged ones.
func TestWholeTracesInJaeger(t *testing.T) {
	answer := func() jaegerTrace {
		f, err := os.Open("testdata/jaeger.json")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		traces, err := answered[[]jaegerTrace](f)
		if err != nil || len(traces) != 1 {
			t.Fatalf("%d traces, %v", len(traces), err)
		}
		return traces[0]
	}
	if err := answer().whole(); err != nil {
		t.Error(err)
	}
	const build, pack, train = 0, 7, 10 // as they stand in it
	set := func(s *jaegerSpan, key string, value any) {
		s.Tags[slices.IndexFunc(s.Tags, func(t jaegerTag) bool { return t.Key == key })].Value = value
	}
	for _, c := range []struct {
		want   string
		damage func(*jaegerTrace)
	}{
		{"has no acknowledge", func(tr *jaegerTrace) { tr.Spans = tr.Spans[:len(tr.Spans)-1] }},
		{"has nothing of penstock-pack", func(tr *jaegerTrace) { delete(tr.Processes, "p3") }},
		{"pack is of trace other", func(tr *jaegerTrace) { tr.Spans[pack].TraceID = "other" }},
		{"build is below", func(tr *jaegerTrace) { tr.Spans[build].References = tr.Spans[pack].References }},
		{"pack is below []", func(tr *jaegerTrace) { tr.Spans[pack].References = nil }},
		{"pack is below [{FOLLOWS_FROM", func(tr *jaegerTrace) { tr.Spans[pack].References[0].RefType = "FOLLOWS_FROM" }},
		{"pack is below [{CHILD_OF other", func(tr *jaegerTrace) { tr.Spans[pack].References[0].TraceID = "other" }},
		{`parent of train is ""`, func(tr *jaegerTrace) { tr.Spans[train].References[0].SpanID = "lost" }},
		{`parent of train is "build", want "pack"`, func(tr *jaegerTrace) { tr.Spans[train].References[0].SpanID = tr.Spans[build].SpanID }},
		{"penstock.bucket of train", func(tr *jaegerTrace) { set(&tr.Spans[train], "penstock.bucket", "b176") }},
		{"penstock.window of train", func(tr *jaegerTrace) { set(&tr.Spans[train], "penstock.window", 9.0) }},
		{"of train is <nil>", func(tr *jaegerTrace) { tr.Spans[train].Tags = nil }},
		{"penstock.tokens of build", func(tr *jaegerTrace) {
			for i := range tr.Spans {
				set(&tr.Spans[i], "penstock.tokens", 0.0)
			}
		}},
	} {
		tr := answer()
		c.damage(&tr)
		if err := tr.whole(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
