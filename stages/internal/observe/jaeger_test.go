//go:build jaeger

package observe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"testing"
	"time"

	"penstock/stages/stagestest"
)

// jaegerTrace is what the query API says of a trace.
type jaegerTrace struct {
	TraceID string
	Spans   []struct {
		OperationName, ProcessID string
	}
	Processes map[string]struct{ ServiceName string }
}

// TestJaeger trains with traces sent to a Jaeger that runs on this host and asks its query API for a trace that has every
// stage. JAEGER_OTLP and JAEGER_QUERY name other addresses.
func TestJaeger(t *testing.T) {
	otlp, query := os.Getenv("JAEGER_OTLP"), os.Getenv("JAEGER_QUERY")
	if otlp == "" {
		otlp = "http://127.0.0.1:4318"
	}
	if query == "" {
		query = "http://127.0.0.1:16686"
	}
	await(t, minute(t), "Jaeger to answer at "+query, func() error {
		_, err := ask[[]string](query + "/api/services")
		return err
	})
	trainWith(t, stagestest.Config(t, 30, nil), "OTEL_EXPORTER_OTLP_ENDPOINT="+otlp)
	await(t, minute(t), "a whole trace", func() error {
		traces, err := ask[[]jaegerTrace](query + "/api/traces?limit=50&service=" + url.QueryEscape("penstock-draft"))
		if err != nil {
			return err
		}
		for _, tr := range traces {
			if err = wholeInJaeger(tr); err == nil {
				return nil
			}
		}
		return fmt.Errorf("none of %d traces is whole: %w", len(traces), err)
	})
}

func wholeInJaeger(tr jaegerTrace) error {
	var names, services []string
	for _, s := range tr.Spans {
		names = append(names, s.OperationName)
	}
	for _, p := range tr.Processes {
		services = append(services, p.ServiceName)
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

// ask gets the data of an answer of the query API.
func ask[T any](url string) (T, error) {
	var answer struct{ Data T }
	resp, err := http.Get(url)
	if err != nil {
		return answer.Data, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer.Data, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return answer.Data, json.NewDecoder(resp.Body).Decode(&answer)
}

// minute is a context that ends after one.
func minute(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
