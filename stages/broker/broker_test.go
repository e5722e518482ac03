package broker

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"penstock/schema"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
)

// TestAddressElsewhere: no restart helps a broker that is to bind another machine's address.
func TestAddressElsewhere(t *testing.T) {
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	env := &runtime.Env{Config: schema.Default(), Run: dir, Stage: "broker", Instance: "broker", Log: slog.New(slog.DiscardHandler)}
	env.Config.Broker.Host = "203.0.113.7" // of documentation
	err = Run(context.Background(), env)
	if !runtime.IsPermanent(err) || !strings.Contains(err.Error(), "broker.host: 203.0.113.7 cannot be bound") {
		t.Errorf("err = %v", err)
	}
}
