//go:build jaeger

package observe_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"penstock/stages/stagestest"
)

// TestJaeger trains with traces sent to a Jaeger that runs on this host and asks its query API for a whole trace of a batch.
// JAEGER_OTLP and JAEGER_QUERY name other addresses.
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
			if err = tr.whole(); err == nil {
				return nil
			}
		}
		return fmt.Errorf("none of %d traces is whole: %w", len(traces), err)
	})
}

// ask gets the data of an answer of the query API.
func ask[T any](url string) (data T, err error) {
	resp, err := http.Get(url)
	if err != nil {
		return data, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return data, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return answered[T](resp.Body)
}

// minute is a context that ends after one.
func minute(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
