package stages_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"penstock/schema"
	"penstock/stages/stagestest"
)

// spans collects what is exported over OTLP until the test ends, by trace.
func spans(t *testing.T) map[string][]*trace.Span {
	t.Helper()
	var mu sync.Mutex
	got := map[string][]*trace.Span{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var msg collector.ExportTraceServiceRequest
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &msg)
		}
		if err != nil {
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range msg.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					got[string(s.TraceId)] = append(got[string(s.TraceId)], s)
				}
			}
		}
	}))
	t.Cleanup(srv.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	return got
}

// TestBadFeaturesAreAnErrorInTheTrace: the packing of features that are bad fails in the batch's trace, says why, and is
// followed by the second attempt.
func TestBadFeaturesAreAnErrorInTheTrace(t *testing.T) {
	config := stagestest.Config(t, 24, func(c *schema.Config) {
		c.Deterministic, c.Target.Instances, c.Broker.AckWait, c.Data.Store = true, 1, "1s", t.TempDir()
	})
	calm := stagestest.New(t, config)
	if err := calm.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	victim, _ := unique(t, calm)
	rows := len(config.Target.Taps) * victim
	got := spans(t)
	p := poisoned(t, config, "target-1", func(n, nth int) bool { return n == rows && nth == 1 }, poisons[0].spoil)
	if err := p.Run(t.Context(), nil); err != nil { // every exporter has delivered when its stage ends
		t.Fatal(err)
	}
	failures := 0
	for _, batch := range got {
		names, failed := map[string]int{}, []string{}
		for _, s := range batch {
			names[s.Name]++
			if s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR {
				failed = append(failed, s.Name+": "+s.Status.Message)
				typed := slices.ContainsFunc(s.Attributes, func(kv *common.KeyValue) bool { return kv.Key == "error.type" && kv.Value.GetStringValue() != "" })
				if len(s.Events) != 1 || s.Events[0].Name != "exception" || !typed {
					t.Errorf("the failure of %s has attributes %v and events %v", s.Name, s.Attributes, s.Events)
				}
			}
		}
		if len(failed) == 0 {
			continue
		}
		failures++
		if len(failed) != 1 || !strings.HasPrefix(failed[0], "pack: ") || !strings.Contains(failed[0], "not finite") {
			t.Errorf("failed are %q", failed)
		}
		if names["forward"] != 2 || names["pack"] != 2 || names["train"] != 1 || names["acknowledge"] != 1 {
			t.Errorf("the trace of a batch that was computed twice has %v", names)
		}
	}
	if failures != 1 {
		t.Errorf("%d of %d traces have a failure", failures, len(got))
	}
}
