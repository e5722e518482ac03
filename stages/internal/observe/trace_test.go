package observe_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"penstock/schema"
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

// trainWith runs `penstock up` as processes of their own, with more in the environment.
func trainWith(t *testing.T, c schema.Config, env ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	_, up := command(t, ctx, c)
	up.Env = append(os.Environ(), env...)
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
}

// command is `penstock up` in a new run directory named run, to be started.
func command(t *testing.T, ctx context.Context, c schema.Config) (dir string, up *exec.Cmd) {
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
	return dir, exec.CommandContext(ctx, filepath.Join(bin, "penstock"), "up", "--run", dir, "--config", file)
}

// await tries until it succeeds or ctx ends.
func await(t *testing.T, ctx context.Context, what string, try func() error) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s: %v", what, err)
		}
	}
}

// TestOneTraceABatch trains and holds every trace that a collector received against what a batch goes through.
func TestOneTraceABatch(t *testing.T) {
	for _, of := range []struct {
		name  string
		ranks int
		to    func(*receiver, *testing.T) []string
	}{{"one rank, HTTP", 1, (*receiver).overHTTP}, {"two ranks, gRPC", 2, (*receiver).overGRPC}} {
		t.Run(of.name, func(t *testing.T) {
			var r receiver
			c := stagestest.Config(t, 60, func(c *schema.Config) { c.Draft.Ranks = of.ranks })
			trainWith(t, c, of.to(&r, t)...)
			traces, steps := r.sorted()
			if len(traces) < 6 {
				t.Fatalf("%d traces of batches", len(traces))
			}
			checkBatches(t, traces)
			checkSteps(t, c, traces, steps)
		})
	}
}

// checkBatches holds every trace against what a batch goes through.
func checkBatches(t *testing.T, traces map[string][]span) {
	t.Helper()
	batches := map[string]bool{}
	for id, spans := range traces {
		checkWhole(t, id, spans)
		batch := spans[0].attr("penstock.batch")
		if batches[batch] {
			t.Errorf("batch %s has two traces", batch)
		}
		batches[batch] = true
	}
}

// checkSteps holds the steps against the batches in them: each rank takes every step, and links to what it trained itself.
func checkSteps(t *testing.T, c schema.Config, traces map[string][]span, steps []span) {
	t.Helper()
	links, taken, ranks := map[string]int{}, map[string]int{}, map[string]bool{}
	for _, s := range steps {
		window := s.attr("penstock.window")
		taken[window]++
		ranks[s.instance] = true
		if len(s.Links) > c.Window.Batches {
			t.Errorf("step of window %s links to %d batches", window, len(s.Links))
		}
		for _, l := range s.Links {
			id := hex.EncodeToString(l.TraceId)
			links[id]++
			if spans := traces[id]; len(spans) == 0 || spans[0].attr("penstock.window") != window {
				t.Errorf("step of window %s links to trace %s, which is of another window or not there", window, id)
			}
		}
	}
	for id := range traces {
		if links[id] != 1 {
			t.Errorf("%d steps link to trace %s", links[id], id)
		}
	}
	for window, n := range taken {
		if n != c.Draft.Ranks {
			t.Errorf("%d steps of window %s by %d ranks", n, window, c.Draft.Ranks)
		}
	}
	if len(ranks) != c.Draft.Ranks {
		t.Errorf("steps of %d ranks, want %d", len(ranks), c.Draft.Ranks)
	}
}

// parents are the spans that others are children of. A queue, of which there are several, is one of its message's sender.
var parents = map[string]string{"forward": "build", "pack": "forward", "copy": "pack", "train": "pack", "commit": "train", "acknowledge": "train",
	"credit wait": "queue", "slot wait": "queue"}

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
	want := []string{"acknowledge", "build", "commit", "copy", "credit wait", "forward", "pack",
		"queue", "queue", "queue", "slot wait", "slot wait", "train"}
	if !slices.Equal(got, want) {
		t.Errorf("trace %s has %v, want %v", id, got, want)
	}
	for _, want := range []string{"penstock-batch", "penstock-target", "penstock-pack", "penstock-draft"} {
		if !services[want] {
			t.Errorf("trace %s has nothing of %s", id, want)
		}
	}
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

// TestSamplingKeepsTracesWhole traces a part of the batches, by configuration.
func TestSamplingKeepsTracesWhole(t *testing.T) {
	var r receiver
	trainWith(t, stagestest.Config(t, 120, func(c *schema.Config) { c.Traces.Sample = 0.4 }), r.overHTTP(t)...)
	traces, _ := r.sorted()
	last := 0
	for _, spans := range traces {
		n, err := strconv.Atoi(spans[0].attr("penstock.batch"))
		if err != nil {
			t.Fatal(err)
		}
		last = max(last, n)
	}
	if len(traces) == 0 || len(traces) > last*9/10 {
		t.Errorf("%d traces of at least %d batches, at a share of 0.4", len(traces), last+1)
	}
	checkBatches(t, traces)
}

// TestUnsampledTracesStayAway runs with a sampler that takes no batch.
func TestUnsampledTracesStayAway(t *testing.T) {
	var r receiver
	trainWith(t, stagestest.Config(t, 30, nil), append(r.overHTTP(t), "OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0")...)
	if len(r.spans) > 0 {
		t.Errorf("%d spans of batches that are not sampled", len(r.spans))
	}
}
