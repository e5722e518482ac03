package observe_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"penstock/schema"
	"penstock/stages/internal/telemetry"
	"penstock/stages/stagestest"
)

var bin string // folder of the binaries

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "penstock"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	build := exec.Command("go", "build", "-o", bin+"/", "./stages/cmd/...")
	build.Dir, build.Env = stagestest.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// span is a received span with the process that it came from.
type span struct {
	*trace.Span
	service, instance string
}

func (s span) attr(key string) string {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			switch {
			case kv.Value.GetStringValue() != "":
				return kv.Value.GetStringValue()
			default:
				return fmt.Sprint(kv.Value.GetIntValue())
			}
		}
	}
	return ""
}

// receiver takes OTLP over HTTP, as a collector does.
type receiver struct {
	mu    sync.Mutex
	spans []span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var msg collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &msg)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range msg.ResourceSpans {
		var from span
		for _, kv := range rs.Resource.Attributes {
			switch kv.Key {
			case "service.name":
				from.service = kv.Value.GetStringValue()
			case "service.instance.id":
				from.instance = kv.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				r.spans = append(r.spans, span{s, from.service, from.instance})
			}
		}
	}
}

// trainWith runs `penstock up` as processes of their own, with more in the environment.
func trainWith(t *testing.T, c schema.Config, env ...string) (dir string) {
	t.Helper()
	yaml, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(t.TempDir(), "run")
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, yaml, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	up := exec.CommandContext(ctx, filepath.Join(bin, "penstock"), "up", "--run", dir, "--config", file)
	up.Env = append(os.Environ(), env...)
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	return dir
}

// TestOneTraceABatch trains and holds every trace that a collector received against what a batch goes through.
func TestOneTraceABatch(t *testing.T) {
	var r receiver
	srv := httptest.NewServer(&r)
	defer srv.Close()
	c := stagestest.Config(t, 60, nil)
	trainWith(t, c, "OTEL_EXPORTER_OTLP_ENDPOINT="+srv.URL, "OTEL_TRACES_SAMPLER=parentbased_always_on")

	traces := map[string][]span{}
	var steps []span
	for _, s := range r.spans {
		if s.Name == telemetry.Step {
			steps = append(steps, s)
			continue
		}
		traces[hex.EncodeToString(s.TraceId)] = append(traces[hex.EncodeToString(s.TraceId)], s)
	}
	if len(traces) < 6 {
		t.Fatalf("%d traces of batches", len(traces))
	}
	batches := map[string]bool{}
	for id, spans := range traces {
		checkWhole(t, id, spans)
		batch := spans[0].attr("penstock.batch")
		if batches[batch] {
			t.Errorf("batch %s has two traces", batch)
		}
		batches[batch] = true
	}
	linked := map[string]bool{}
	for _, s := range steps {
		if len(s.Links) == 0 || len(s.Links) > c.Window.Batches {
			t.Errorf("step of window %s links to %d batches", s.attr("penstock.window"), len(s.Links))
		}
		for _, l := range s.Links {
			linked[hex.EncodeToString(l.TraceId)] = true
		}
	}
	for id := range traces {
		if !linked[id] {
			t.Errorf("no step links to trace %s", id)
		}
	}
}

// checkWhole holds the spans of one trace against those of a batch that was worked on once.
func checkWhole(t *testing.T, id string, spans []span) {
	t.Helper()
	var got []string
	byID := map[string]span{}
	services := map[string]bool{}
	for _, s := range spans {
		got = append(got, s.Name)
		byID[string(s.SpanId)] = s
		services[s.service] = true
	}
	slices.Sort(got)
	want := []string{"acknowledge", "build", "commit", "copy", "copy", "credit wait", "forward", "pack",
		"queue", "queue", "queue", "slot wait", "slot wait", "train"}
	if !slices.Equal(got, want) {
		t.Errorf("trace %s has %v, want %v", id, got, want)
	}
	for _, want := range []string{"penstock-batch", "penstock-target", "penstock-pack", "penstock-draft"} {
		if !services[want] {
			t.Errorf("trace %s has nothing of %s", id, want)
		}
	}
	parents := map[string]string{"forward": "build", "pack": "forward", "train": "pack", "commit": "train", "acknowledge": "train",
		"credit wait": "queue", "slot wait": "queue"}
	kinds := map[string]trace.Span_SpanKind{"build": trace.Span_SPAN_KIND_PRODUCER, "forward": trace.Span_SPAN_KIND_CONSUMER,
		"pack": trace.Span_SPAN_KIND_CONSUMER, "train": trace.Span_SPAN_KIND_CONSUMER, "acknowledge": trace.Span_SPAN_KIND_CLIENT}
	for _, s := range spans {
		parent, ok := byID[string(s.ParentSpanId)]
		if ok != (s.Name != "build") {
			t.Errorf("trace %s: parent of %s is not in it, or build has one", id, s.Name)
		}
		if want, ok := parents[s.Name]; ok && parent.Name != want {
			t.Errorf("trace %s: %s is a child of %s, want %s", id, s.Name, parent.Name, want)
		}
		if want, ok := kinds[s.Name]; ok && s.Kind != want {
			t.Errorf("trace %s: %s is a %v", id, s.Name, s.Kind)
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("trace %s: %s ends before it begins", id, s.Name)
		}
		if s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR {
			t.Errorf("trace %s: %s failed: %s", id, s.Name, s.Status.Message)
		}
		if s.attr("penstock.bucket") != spans[0].attr("penstock.bucket") || s.attr("penstock.batch") != spans[0].attr("penstock.batch") ||
			s.attr("penstock.tokens") == "0" || s.attr("penstock.device") != "cpu" {
			t.Errorf("trace %s: attributes of %s: %v", id, s.Name, s.Attributes)
		}
		if slices.Contains([]string{"forward", "pack", "train"}, s.Name) && (s.attr("penstock.pool") == "" || s.attr("messaging.system") != "nats" ||
			!strings.HasPrefix(s.attr("messaging.destination.name"), "ps.")) {
			t.Errorf("trace %s: %s lacks slot or message: %v", id, s.Name, s.Attributes)
		}
	}
}

// TestUnsampledTracesStayAway runs with a sampler that takes no batch.
func TestUnsampledTracesStayAway(t *testing.T) {
	var r receiver
	srv := httptest.NewServer(&r)
	defer srv.Close()
	trainWith(t, stagestest.Config(t, 30, nil), "OTEL_EXPORTER_OTLP_ENDPOINT="+srv.URL, "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0")
	if len(r.spans) > 0 {
		t.Errorf("%d spans of batches that are not sampled", len(r.spans))
	}
}
