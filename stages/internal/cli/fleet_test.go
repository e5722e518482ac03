package cli

import (
	"strings"
	"testing"

	"penstock/schema"
)

// TestEachProcessHasItsMetricsPort: of a fixed port the processes take that one and those behind it.
func TestEachProcessHasItsMetricsPort(t *testing.T) {
	cfg := schema.Default()
	for _, c := range []struct {
		port, nth int
		want      string
	}{{0, 3, "--instance pack-1"}, {9400, 0, "--instance pack-1 --set metrics.port=9400"}, {9400, 3, "--instance pack-1 --set metrics.port=9403"}} {
		cfg.Metrics.Port = c.port
		if got := strings.Join(own(cfg, "pack-1", c.nth), " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
