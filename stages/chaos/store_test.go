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
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	c := stagestest.Config(t, 120, func(c *schema.Config) {
		c.Deterministic = true
		c.Broker.AckWait = ackWait.String()
		c.Save = schema.SaveConfig{Every: 5, Keep: 3}
		c.Train.MaxSteps = 20
	})
	calm := newRun(t, bin, c)
	calm.up(ctx).well()
	for name, older := range map[string]bool{"lost": false, "older": true} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bin, c)
			u := r.up(ctx)
			store := filepath.Join(r.dir, "broker")
			kept := filepath.Join(t.TempDir(), "kept")
			if older {
				u.must(ctx, 3)
				broker := r.pids()["broker"]
				signal(t, broker, syscall.SIGSTOP)
				if err := os.CopyFS(kept, os.DirFS(store)); err != nil {
					t.Fatal(err)
				}
				signal(t, broker, syscall.SIGCONT)
			}
			u.must(ctx, 8)
			signal(t, u.cmd.Process.Pid, syscall.SIGSTOP) // it would start the broker again at once
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
			signal(t, u.cmd.Process.Pid, syscall.SIGCONT)
			u.well()
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

func signal(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("signal %v to %d: %v", sig, pid, err)
	}
}

// TestFrozenTargetIsReplaced stops the only target for good: it keeps its connections and says nothing more.
func TestFrozenTargetIsReplaced(t *testing.T) {
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newRun(t, bin, stagestest.Config(t, 60, func(c *schema.Config) {
		c.Target.Instances = 1
		c.Broker.AckWait = ackWait.String()
	}))
	u := r.up(ctx)
	u.must(ctx, 2)
	frozen := r.pids()["target-1"]
	began := time.Now()
	signal(t, frozen, syscall.SIGSTOP)
	u.well()
	if !bytes.Contains(u.out.Bytes(), []byte("target-1 is replaced: it has been silent for")) {
		t.Errorf("up says:\n%s", &u.out)
	}
	if l := r.ledger(); l["missing"] != 0 || l["duplicates"] != 0 || l["documents"] != 60 {
		t.Errorf("ledger: %v", l)
	}
	t.Logf("the run ended %v after its target froze", time.Since(began).Round(time.Millisecond))
}
