package chaos

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/stagestest"
)

// TestAnotherStore takes the broker's store away in the middle of a run, or puts an older one in its place, and expects the
// ledger and the weights of a run that was left alone.
func TestAnotherStore(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	bin := bins(t)
	c := stagestest.Config(t, 120, func(c *schema.Config) {
		c.Deterministic = true
		c.Broker.AckWait = ackWait.String()
		c.Save = schema.SaveConfig{Every: 5, Keep: 3}
		c.Train.MaxSteps = 20
	})
	calm := newRun(t, bin, c)
	if cmd, out := calm.up(ctx); cmd.Wait() != nil {
		t.Fatalf("undisturbed run: %s\n%s", out, calm.logs())
	}
	for name, older := range map[string]bool{"lost": false, "older": true} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bin, c)
			cmd, out := r.up(ctx)
			store := filepath.Join(r.dir, "broker")
			kept := filepath.Join(t.TempDir(), "kept")
			if older {
				r.reach(ctx, 3)
				broker := r.pids()["broker"]
				signal(t, broker, syscall.SIGSTOP)
				if err := os.CopyFS(kept, os.DirFS(store)); err != nil {
					t.Fatal(err)
				}
				signal(t, broker, syscall.SIGCONT)
			}
			r.reach(ctx, 8)
			signal(t, cmd.Process.Pid, syscall.SIGSTOP) // it would start the broker again at once
			broker := r.pids()["broker"]
			signal(t, broker, syscall.SIGKILL)
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
			if older {
				if err := os.CopyFS(store, os.DirFS(kept)); err != nil {
					t.Fatal(err)
				}
			}
			signal(t, cmd.Process.Pid, syscall.SIGCONT)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("up: %v\n%s\n%s", err, out, r.logs())
			}
			if l := r.ledger(); l["missing"] != 0 || l["duplicates"] != 0 || l["mismatched"] != 0 || l["windows"] != l["planned"] {
				t.Errorf("ledger: %v", l)
			}
			if !bytes.Equal(calm.weights(), r.weights()) {
				t.Error("other weights than undisturbed")
			}
			if gen, err := os.ReadFile(filepath.Join(r.dir, "generation")); err != nil || string(bytes.TrimSpace(gen)) == "1" {
				t.Errorf("generation %s, %v: want a later one than the first", gen, err)
			}
		})
	}
}

// reach waits until so many windows have committed.
func (r *run) reach(ctx context.Context, windows int) {
	r.t.Helper()
	if err := until(ctx, func() bool { return r.windows() >= windows }); err != nil {
		r.t.Fatalf("waiting for window %d: %v\n%s", windows, err, r.logs())
	}
}

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("signal %v to %d: %v", sig, pid, err)
	}
}

// TestFrozenTargetIsReplaced stops the only target for good: it keeps its connections and says nothing more.
func TestFrozenTargetIsReplaced(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newRun(t, bins(t), stagestest.Config(t, 60, func(c *schema.Config) {
		c.Target.Instances = 1
		c.Broker.AckWait = ackWait.String()
	}))
	cmd, out := r.up(ctx)
	r.reach(ctx, 2)
	frozen := r.pids()["target-1"]
	began := time.Now()
	signal(t, frozen, syscall.SIGSTOP)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("up: %v\n%s\n%s", err, out, r.logs())
	}
	if !bytes.Contains(out.Bytes(), []byte("target-1 is replaced: it has been silent for")) {
		t.Errorf("up says:\n%s", out)
	}
	if l := r.ledger(); l["missing"] != 0 || l["duplicates"] != 0 || l["documents"] != 60 {
		t.Errorf("ledger: %v", l)
	}
	t.Logf("the run ended %v after its target froze", time.Since(began).Round(time.Millisecond))
}
