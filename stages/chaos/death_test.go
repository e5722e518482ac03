package chaos

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"penstock/schema"
	"penstock/stages/stagestest"
)

// handedBack is the line with which `up` says that the broker has taken a dead target's roots back.
var handedBack = regexp.MustCompile(`(?m)^time=(\S+) .*target-1: its work is handed back`)

// handbacks returns when `up` said so.
func (r *run) handbacks() (at []time.Time) {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.dir, "logs", "up.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, m := range handedBack.FindAllSubmatch(b, -1) {
		when, err := time.Parse(time.RFC3339Nano, string(m[1]))
		if err != nil {
			r.t.Fatal(err)
		}
		at = append(at, when)
	}
	return at
}

// TestWorkOfADeadTargetIsBackAtOnce kills a target again and again while AckWait is far longer than the test, and measures how
// long it takes until its batches can be pulled again.
func TestWorkOfADeadTargetIsBackAtOnce(t *testing.T) {
	const deaths, atOnce = 8, 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newRun(t, bins(t), stagestest.Config(t, 200, func(c *schema.Config) {
		c.Broker.AckWait = "10m"
		c.Train.Epochs = 4
	}))
	cmd, out := r.up(ctx)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var took []time.Duration
	for len(took) < deaths {
		r.reach(ctx, r.windows()+2)
		before, pid := len(r.handbacks()), r.pids()["target-1"]
		killed := time.Now()
		if pid == 0 || syscall.Kill(pid, syscall.SIGKILL) != nil {
			continue
		}
		if err := until(ctx, func() bool { p := r.pids()["target-1"]; return p != 0 && p != pid || len(ended) > 0 }); err != nil {
			t.Fatal(err)
		}
		if len(ended) > 0 {
			break
		}
		if at := r.handbacks(); len(at) > before { // it may have held nothing
			took = append(took, at[before].Sub(killed))
		}
	}
	if err := <-ended; err != nil {
		t.Fatalf("up: %v\n%s\n%s", err, out, r.logs())
	}
	if len(took) < 3 {
		t.Fatalf("only %d deaths with work in hand: give the run more steps", len(took))
	}
	slices.Sort(took)
	t.Logf("from death to being available: %v", took)
	if median := took[len(took)/2]; median > atOnce {
		t.Errorf("a dead target's work is back after %v, want %v", median, atOnce)
	}
	if l := r.ledger(); l["missing"] != 0 || l["duplicates"] != 0 || l["documents"] != 800 {
		t.Errorf("ledger: %v", l)
	}
}
