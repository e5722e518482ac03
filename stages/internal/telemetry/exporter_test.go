package telemetry

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func TestTheEnvironmentDecidesWhereSpansGo(t *testing.T) {
	const (
		endpoint, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
		exporter         = "OTEL_TRACES_EXPORTER"
		protocol         = "OTEL_EXPORTER_OTLP_PROTOCOL"
	)
	for _, c := range []struct {
		env      map[string]string
		protocol string
		on       bool
		warned   string
	}{
		{nil, "http/protobuf", false, ""},
		{map[string]string{endpoint: "http://x:4318"}, "http/protobuf", true, ""},
		{map[string]string{traces: "http://x:4317", protocol: "grpc"}, "grpc", true, ""},
		{map[string]string{endpoint: "http://x:4318", protocol: "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "HTTP/protobuf"}, "http/protobuf", true, ""},
		{map[string]string{exporter: "otlp"}, "http/protobuf", true, ""},
		{map[string]string{exporter: "OTLP"}, "http/protobuf", true, ""},
		{map[string]string{endpoint: "http://x:4318", exporter: "none"}, "http/protobuf", false, ""},
		{map[string]string{endpoint: "http://x:4318", exporter: "console"}, "http/protobuf", false, `is "console": only otlp and none are there`},
		{map[string]string{exporter: "console, otlp"}, "http/protobuf", true, `is "console, otlp": only otlp and none are there`},
		{map[string]string{endpoint: "http://x:4318", "OTEL_SDK_DISABLED": "TRUE"}, "http/protobuf", false, ""},
		{map[string]string{endpoint: "http://x:4318", protocol: "http/json"}, "http/json", true, `is "http/json": http/protobuf is used`},
	} {
		env := func(k string) string { return c.env[k] }
		var warned []error
		warn := func(err error) { warned = append(warned, err) }
		on, p := exports(env, warn), exportProtocol(env)
		client := newClient(p, warn)
		if err := errors.Join(client.Start(t.Context()), client.Stop(t.Context())); err != nil {
			t.Errorf("%v: %v", c.env, err)
		}
		said := errors.Join(warned...)
		if p != c.protocol || on != c.on || (said != nil) != (c.warned != "") || said != nil && !strings.Contains(said.Error(), c.warned) {
			t.Errorf("%v: %s, %v, warned of %v", c.env, p, on, said)
		}
	}
}

// TestDeliveriesAreAsTheEnvironmentSays has a span delivered to a collector that asks for what the variables name: a path, a
// header, compression, and trust in its certificate.
func TestDeliveriesAreAsTheEnvironmentSays(t *testing.T) {
	var refused error
	var got otlp.TracesData
	collector := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused = take(r, &got); refused != nil {
			http.Error(w, refused.Error(), http.StatusBadRequest)
		}
	}))
	t.Cleanup(collector.Close)
	certificate := filepath.Join(t.TempDir(), "collector.pem")
	if err := os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: collector.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	for k, v := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL + "/in", "OTEL_EXPORTER_OTLP_CERTIFICATE": certificate, "OTEL_EXPORTER_OTLP_HEADERS": "key=a%20b",
		"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "service.namespace=ours,broken,odd=%FF",
	} {
		t.Setenv(k, v)
	}
	var warned []error
	tr, err := Open(t.Context(), Process{Run: "r", Stage: "pack", Instance: "pack-1"}, 1, func(err error) { warned = append(warned, err) })
	if err != nil {
		t.Fatal(err)
	}
	_, s := tr.Start(t.Context(), Pack, time.Now(), Of{})
	s.End(nil)
	if err := tr.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(got.ResourceSpans) != 1 || len(got.ResourceSpans[0].ScopeSpans[0].Spans) != 1 {
		t.Fatalf("delivered: %v; refused: %v; warned of %v", &got, refused, warned)
	}
	is := map[string]string{}
	for _, kv := range got.ResourceSpans[0].Resource.Attributes {
		is[kv.Key] = kv.Value.GetStringValue()
	}
	for k, want := range map[string]string{"service.name": "mine", "service.namespace": "ours", "service.instance.id": "r/pack-1", "odd": "\uFFFD"} {
		if is[k] != want {
			t.Errorf("%s is %q, want %q", k, is[k], want)
		}
	}
}

// take reads a delivery that has to be as TestDeliveriesAreAsTheEnvironmentSays asks.
func take(r *http.Request, to *otlp.TracesData) error {
	if r.URL.Path != "/in/v1/traces" || r.Header.Get("Key") != "a b" || r.Header.Get("Content-Encoding") != "gzip" {
		return fmt.Errorf("%s with %v", r.URL, r.Header)
	}
	z, err := gzip.NewReader(r.Body)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return proto.Unmarshal(body, to)
}
