package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

// TestDeadPackersHopsAreBackAtOnce kills the only packer while AckWait is far longer than the test: what it held comes back.
// Every other time the broker is frozen meanwhile, so that it hears from the supervisor before it notices the death, and what
// it then sends goes to the dead.
func TestDeadPackersHopsAreBackAtOnce(t *testing.T) {
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newRun(t, bin, stagestest.Config(t, 120, func(c *schema.Config) { c.Broker.AckWait = "10m" }))
	u := r.up(ctx)
	for w := 2; w <= 16; w += 2 {
		u.must(ctx, w)
		broker := r.pids()["broker"]
		if w%4 == 0 {
			signal(t, broker, syscall.SIGSTOP)
		}
		pid := r.kill("pack-1") // it may be on its way up still
		if w%4 == 0 {
			err := until(ctx, func() bool { return pid == 0 || r.pids()["pack-1"] != pid || u.ended() })
			signal(t, broker, syscall.SIGCONT)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	u.well()
	if l := r.ledger(); l["missing"] != 0 || l["duplicates"] != 0 || l["documents"] != 120 {
		t.Errorf("ledger: %v", l)
	}
}

// kill ends an instance, and returns which process that was: 0 if none is there.
func (r *run) kill(instance string) int {
	pid := r.pids()[instance]
	if !r.owns(pid) || syscall.Kill(pid, syscall.SIGKILL) != nil {
		return 0
	}
	return pid
}

// TestSecretsStayInTheirFiles looks for the keys of a running run in arguments, environments and every other file.
func TestSecretsStayInTheirFiles(t *testing.T) {
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newRun(t, bin, stagestest.Config(t, 60, nil))
	u := r.up(ctx)
	u.must(ctx, 2)
	keys, err := filepath.Glob(filepath.Join(r.dir, "keys", "*.nk"))
	if err != nil || len(keys) == 0 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	var places []string
	seen := t.TempDir()
	for name, pid := range r.pids() {
		for _, what := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, what))
			if err != nil || len(b) == 0 {
				continue // it has ended
			}
			places = append(places, filepath.Join(seen, name+"."+what))
			if err := os.WriteFile(places[len(places)-1], b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(places) < 8 {
		t.Fatalf("only %v could be read", places)
	}
	u.well()
	err = filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Base(filepath.Dir(path)) != "keys" {
			places = append(places, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		info, err := os.Stat(key)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", key, info.Mode(), err)
		}
		seed, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range places {
			if b, err := os.ReadFile(place); err == nil && bytes.Contains(b, bytes.TrimSpace(seed)) {
				t.Errorf("%s is in %s", filepath.Base(key), place)
			}
		}
	}
}

// TestWorkOfADeadTargetIsBackAtOnce kills a target again and again while AckWait is far longer than the test, and measures how
// long it takes until its batches can be pulled again.
func TestWorkOfADeadTargetIsBackAtOnce(t *testing.T) {
	const deaths, atOnce = 8, 100 * time.Millisecond
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newRun(t, bin, stagestest.Config(t, 200, func(c *schema.Config) {
		c.Broker.AckWait = "10m"
		c.Train.Epochs = 4
	}))
	u := r.up(ctx)
	var took []time.Duration
	for len(took) < deaths && u.reach(ctx, r.windows()+2) {
		before, killed := len(r.handbacks()), time.Now()
		pid := r.kill("target-1")
		if pid == 0 {
			continue
		}
		again := func() bool { p := r.pids()["target-1"]; return p != 0 && p != pid || u.ended() }
		if err := until(ctx, again); err != nil {
			t.Fatal(err)
		}
		if at := r.handbacks(); len(at) > before { // it may have held nothing
			took = append(took, at[before].Sub(killed))
		}
	}
	u.well()
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

// TestKilledAtTheSamePlaceEnds kills the only drafter some windows after each start, as the kernel does one that takes too much memory
// there. Without a checkpoint it always comes to about the same window, and the run is given up with a word on memory.
func TestKilledAtTheSamePlaceEnds(t *testing.T) {
	const most = 200 // kills; few of them come at a later window than all before
	bin := bins(t)
	ctx, cancel := context.WithTimeout(t.Context(), *limit)
	defer cancel()
	r := newRun(t, bin, stagestest.Config(t, 200, func(c *schema.Config) {
		c.Broker.AckWait = ackWait.String()
		c.Save.Every = 1000
		c.Train.Epochs = 4
	}))
	u := r.up(ctx)
	n := 0
	for pid := 0; n < most && u.reach(ctx, r.windows()+4); n++ {
		if pid = r.kill("draft-1"); pid == 0 {
			continue
		}
		gone := func() bool { return r.pids()["draft-1"] != pid || u.ended() }
		if err := until(ctx, gone); err != nil {
			t.Fatal(err)
		}
	}
	if n == most {
		t.Fatalf("the run goes on after %d kills of its drafter", n)
	}
	<-u.done
	if u.err == nil || !strings.Contains(u.out.String(), "; something outside kills it, as the kernel does when memory runs out") {
		t.Errorf("after %d kills: %v\n%s", n, u.err, &u.out)
	}
}
