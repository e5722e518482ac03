package observe_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"penstock/stages/internal/telemetry"
)

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

// receiver takes OTLP over HTTP and over gRPC, as a collector does.
type receiver struct {
	collector.UnimplementedTraceServiceServer

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
	r.take(&msg)
}

// Export takes OTLP over gRPC.
func (r *receiver) Export(_ context.Context, msg *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.take(msg)
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *receiver) take(msg *collector.ExportTraceServiceRequest) {
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

// overHTTP serves OTLP over HTTP until the test ends, and returns the environment that leads there.
func (r *receiver) overHTTP(t *testing.T) []string {
	srv := httptest.NewServer(r)
	t.Cleanup(srv.Close)
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + srv.URL}
}

// overGRPC is overHTTP, over gRPC.
func (r *receiver) overGRPC(t *testing.T) []string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, r)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + l.Addr().String(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}
}

// sorted returns the spans of each batch's trace, by the trace's id, and the optimizer steps.
func (r *receiver) sorted() (traces map[string][]span, steps []span) {
	traces = map[string][]span{}
	for _, s := range r.spans {
		if s.Name == telemetry.Step {
			steps = append(steps, s)
			continue
		}
		id := hex.EncodeToString(s.TraceId)
		traces[id] = append(traces[id], s)
	}
	return traces, steps
}
