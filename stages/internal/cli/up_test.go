package cli

import (
	"errors"
	"path/filepath"
	"testing"

	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/supervise"
)

// TestInVain: only a run that has nothing to go on with is taken for one.
func TestInVain(t *testing.T) {
	failure := func(code int) error { return &supervise.Failure{Exit: supervise.Exit{Name: "batch", Code: code}} }
	for _, c := range []struct {
		name             string
		err              error
		interrupted      bool
		started, trained bool
		want             bool
	}{
		{"bad data", failure(runtime.ExitPermanent), false, true, false, true},
		{"crashes", failure(1), false, true, false, false},
		{"no server", errors.New("connect"), false, false, false, true},
		{"interrupted before anything", errors.New("connect"), true, false, false, true},
		{"interrupted", errors.New("interrupted"), true, true, false, false},
		{"stopped", errStopped, false, true, false, false},
		{"failed while it trained", failure(runtime.ExitPermanent), false, true, true, false},
	} {
		dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
		if err == nil && c.started {
			err = dir.WritePIDs(map[string]int{"batch": 1})
		}
		if err == nil && c.trained {
			err = dir.WriteGeneration(1)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := inVain(dir, c.err, c.interrupted); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
