package cli

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"penstock/broker"
	"penstock/broker/brokertest"
	"penstock/schema"
	"penstock/stages/internal/monitor"
	"penstock/stages/internal/rundir"
	"penstock/stages/internal/runtime"
	"penstock/stages/internal/worker"
)

// TestOneRunAServer: a run is refused where the stages of another one report, not where another one has been.
func TestOneRunAServer(t *testing.T) {
	ctx := brokertest.Context(t)
	server := brokertest.Start(t)
	conn := server.Conn("up", broker.Options{})
	dir, err := rundir.Make(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{dir: dir, conn: conn, cfg: schema.Default(), view: monitor.NewTracker(), watch: func(schema.Record) {}}
	if err := r.alone(ctx); err != nil {
		t.Errorf("its own broker: %v", err)
	}
	r.cfg.Broker.URL = server.URL
	board := conn.Board()
	put := func(key string, rec schema.Record) {
		t.Helper()
		if err := board.Put(ctx, key, rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.alone(ctx); err != nil {
		t.Errorf("nobody has been here: %v", err)
	}
	put("control", schema.Control{Run: dir.Name(), Want: wantRun})
	put("stage.batch", schema.StageState{Instance: "batch"})
	if err := r.alone(ctx); err != nil {
		t.Errorf("the run itself has: %v", err)
	}
	put(worker.KeyPlan, schema.PlanInfo{Run: "other-1f"})
	if err := r.alone(ctx); err != nil {
		t.Errorf("another one has: %v", err)
	}

	reporting, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { // as a stage does
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := board.Put(ctx, "stage.batch", schema.StageState{Instance: "batch"}); err != nil {
					done <- err
					return
				}
			case <-reporting.Done():
				done <- nil
				return
			}
		}
	}()
	err = r.alone(ctx)
	stop()
	if err == nil || !strings.HasPrefix(err.Error(), "run other-1f goes on at "+server.URL) {
		t.Errorf("another one is: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	t.Chdir("../../..") // what the configuration names is found from there
	f := runtime.Flags{Config: runtime.DefaultConfig, NATS: server.URL}
	if c, err := dialRun(ctx, f, dir, "status", broker.RoleObserver); err == nil || !strings.HasSuffix(err.Error(), "holds is of run other-1f") {
		t.Errorf("asked for its state where another one is: %v, %v", c, err)
	}
	put(worker.KeyPlan, schema.PlanInfo{Run: dir.Name()})
	if c, err := dialRun(ctx, f, dir, "status", broker.RoleObserver); err != nil {
		t.Errorf("asked for its state where it is: %v", err)
	} else {
		c.Close()
	}
	if err := r.onHint(broker.Hint{Record: schema.Control{Run: "other-1f", Want: wantRun}}); err == nil {
		t.Error("another one that begins at the same time is not noticed")
	}
}
